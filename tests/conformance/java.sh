# shellcheck shell=bash
# What the suites share that are Java programs: Kafka's tools, and brokers that are killed meanwhile. To be sourced by bash,
# after lib.sh.
#
#   BOUNCE_SECONDS=60      how long brokers are killed, in each case that says so; 300 with WHOLE=1

RUN=$(date +%s) BOUNCE_SECONDS=${BOUNCE_SECONDS:-$([ -n "${WHOLE:-}" ] && echo 300 || echo 60)}
BOUNCE_PERIOD=20 BOUNCES=0

# Whatever is left of a suite that is interrupted: all but the cluster, which goes in order.
descendants() { # PID
    local child
    for child in $(pgrep -P "$1"); do echo "$child" && descendants "$child"; done
}
end_children() {
    local code=$? pid
    for pid in $(descendants $$); do
        [[ " ${CLUSTER_PIDS[*]} ${CLUSTER_S3_PIDS[*]} " == *" $pid "* ]] || kill -9 "$pid" 2>/dev/null
    done
    return "$code"
}
trap 'end_children; finish' EXIT

java_tool() { # CLASS ARGUMENT…
    local class=$1
    shift
    exec java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "-Dlog4j2.level=${LOG_LEVEL:-WARN}" \
        -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" "org.apache.kafka.tools.$class" "$@"
}
tool() { # SECONDS CLASS ARGUMENT…
    local seconds=$1
    shift
    (timeout -k 5 "$seconds" bash -c "$(declare -f java_tool); STOCK_BUILD='$STOCK_BUILD'; java_tool \"\$@\"" - "$@")
}
at() { echo "--bootstrap-server $CLUSTER_BOOTSTRAP"; }
topic() { # NAME PARTITIONS
    # shellcheck disable=SC2046 # two words
    tool 60 TopicCommand $(at) --create --topic "$1" --partitions "$2"
}

# Committed records of a topic, one a line; ends when COUNT are read, or none came for 8 s.
committed() { # TOPIC COUNT
    # shellcheck disable=SC2046
    LOG_LEVEL=OFF tool 120 consumer.ConsoleConsumer $(at) --topic "$1" --from-beginning --timeout-ms 8000 \
        --max-messages "$2" --isolation-level read_committed
}

# Brokers one after the other, one killed every BOUNCE_PERIOD and started again 5 s later, until the time is over. A command is
# given their count while one is away.
bounce() { # [COMMAND…]
    local started=$SECONDS n=1
    BOUNCES=0
    while [ $((SECONDS - started)) -lt "$BOUNCE_SECONDS" ]; do
        cluster_kill_broker "$n" && BOUNCES=$((BOUNCES + 1))
        { [ $# -eq 0 ] || "$@" "$BOUNCES"; } && sleep 5 || return
        cluster_launch_broker "$n" && cluster_wait_ready || return
        n=$((n % 3 + 1))
        while [ $((SECONDS - started)) -lt $((BOUNCES * BOUNCE_PERIOD)) ]; do sleep 0.5; done
    done
    echo "$BOUNCES brokers were killed in $((SECONDS - started)) s"
}

# Waits for a child, for so many seconds; its code, or 124 when it is still there.
wait_for() { # PID SECONDS
    local until=$((SECONDS + $2))
    while kill -0 "$1" 2>/dev/null; do
        [ "$SECONDS" -lt "$until" ] || return 124
        sleep 0.2
    done
    wait "$1"
}
