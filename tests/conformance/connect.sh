#!/usr/bin/env bash
# Kafka Connect with exactly-once sources: workers that copy lines of a file into a topic, and of the topic into a file, and
# are stopped, killed and joined by others meanwhile; and brokers that are killed.
#
# A source's lines are in the topic once, whatever ends its worker. A sink repeats what it had not committed when it is
# killed, as with any broker; stopped in order it repeats nothing.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/java.sh"
WORKERS=() REST=() WRITERS=()

build() {
    install_java && install_java connect
}

# Worker N of the group; it keeps nothing but what is in the topics.
worker() { # N
    local n=$1 dir=$TEST_DIR/workers
    mkdir -p "$dir"
    [ -n "${REST[n]:-}" ] || REST[n]=127.0.0.1:$(python3 "$CLUSTER_ROOT/examples/free_ports.py" $((8082 + n)))
    cat >"$dir/$n.properties" <<EOF
bootstrap.servers=$CLUSTER_BOOTSTRAP
group.id=connect-$RUN
listeners=http://${REST[n]}
exactly.once.source.support=enabled
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=3
offset.storage.replication.factor=3
status.storage.replication.factor=3
offset.storage.partitions=5
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=1000
scheduled.rebalance.max.delay.ms=3000
session.timeout.ms=6000
heartbeat.interval.ms=2000
consumer.isolation.level=read_committed
connector.client.config.override.policy=All
EOF
    echo "--- started" >>"$CONFORMANCE_LOGS/worker-$n.log"
    java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=INFO -cp "$(cat "$STOCK_BUILD/kafka-connect.classpath")" \
        org.apache.kafka.connect.cli.ConnectDistributed "$dir/$n.properties" >>"$CONFORMANCE_LOGS/worker-$n.log" 2>&1 &
    WORKERS[n]=$!
    until_true 90 joined "$n" || { echo "worker $n does not answer" && return 1; }
}
joined() { ask "$1" GET / >/dev/null && ask "$1" GET /connectors >/dev/null; }

stopped() { # N
    kill "${WORKERS[$1]}" 2>/dev/null || { echo "worker $1 had ended by itself" && return 1; }
    wait_for "${WORKERS[$1]}" 60
    [ $? -ne 124 ] || { echo "worker $1 does not stop" && return 1; }
}
killed() { # N
    kill -9 "${WORKERS[$1]}" 2>/dev/null || { echo "worker $1 had ended by itself" && return 1; }
    wait "${WORKERS[$1]}" 2>/dev/null
    return 0
}
end_workers() {
    local pid
    for pid in "${WORKERS[@]}" "${WRITERS[@]}"; do kill -9 "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
    WORKERS=() WRITERS=()
}

until_true() { # SECONDS COMMAND…
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] || { echo "never became true: $*" && return 1; }
        sleep 0.3
    done
}

# Asks worker N; a rebalance in progress is no answer (409), so it fails and is asked again by until_true.
ask() { # N METHOD PATH [JSON]
    curl -sf -m 30 -X "$2" -H 'Content-Type: application/json' ${4:+-d "$4"} "http://${REST[$1]}$3"
}
json() { python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }
done_by() { ask "$@" >/dev/null; }

# A source of $TEST_DIR/NAME.in and a sink into $TEST_DIR/NAME.out, by way of topic NAME. A transaction a second, so that one is
# open whenever something is killed.
pair() { # WORKER NAME
    local name=$2
    : >"$TEST_DIR/$name.in"
    topic "$name" 1 || return
    until_true 60 done_by "$1" PUT "/connectors/$name-source/config" "{\"connector.class\": \"FileStreamSource\", \"tasks.max\": 1,
        \"topic\": \"$name\", \"file\": \"$TEST_DIR/$name.in\", \"exactly.once.support\": \"required\",
        \"transaction.boundary\": \"interval\", \"transaction.boundary.interval.ms\": 1000}" &&
        until_true 60 done_by "$1" PUT "/connectors/$name-sink/config" "{\"connector.class\": \"FileStreamSink\", \"tasks.max\": 1,
        \"topics\": \"$name\", \"file\": \"$TEST_DIR/$name.out\", \"consumer.override.auto.offset.reset\": \"earliest\"}" &&
        until_true 60 runs "$1" "$name"
}
# Both connectors' tasks run.
runs() { # WORKER NAME
    local kind
    for kind in source sink; do
        [ "$(ask "$1" GET "/connectors/$2-$kind/status" | json '[t["state"] for t in d["tasks"]]')" = "['RUNNING']" ] || return
    done
} 2>/dev/null
no_pair() { # WORKER NAME
    until_true 60 done_by "$1" DELETE "/connectors/$2-source" && until_true 60 done_by "$1" DELETE "/connectors/$2-sink"
}

# COUNT lines more, at PER_SECOND, while something else is done; `written` waits for all of them.
writing() { # NAME COUNT PER_SECOND
    write_lines "$@" &
    WRITERS+=($!)
}
written() { wait "${WRITERS[@]}" && WRITERS=(); }
lines() { (write_lines "$@"); }
write_lines() { # NAME COUNT PER_SECOND
    exec python3 - "$TEST_DIR/$1.in" "$@" <<'EOF'
import sys, time
path, name, count, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with open(path) as file:
    begun = len(file.readlines())
started = time.monotonic()
with open(path, "a") as file:
    for n in range(count):
        file.write(f"{name} {begun + n}\n")
        file.flush()
        time.sleep(max(0, started + (n + 1) / rate - time.monotonic()))
EOF
}

# The last line that was written has come out.
arrived() { [ -e "$TEST_DIR/$1.out" ] && [ "$(tail -n 1 "$TEST_DIR/$1.out")" = "$(tail -n 1 "$TEST_DIR/$1.in")" ]; }

# What was written is in the topic once, in order, and in the sink's file once, or with repeats.
copied() { # NAME once|repeats
    local name=$1
    until_true 120 arrived "$name" || return
    committed "$name" $(($(wc -l <"$TEST_DIR/$name.in") + 1)) >"$TEST_DIR/$name.topic"
    python3 "$CONFORMANCE_DIR/oracle.py" lines once "$TEST_DIR/$name.in" "$TEST_DIR/$name.topic" &&
        python3 "$CONFORMANCE_DIR/oracle.py" lines "$2" "$TEST_DIR/$name.in" "$TEST_DIR/$name.out"
}

alone() { # COMMAND…
    local code
    worker 1 && "$@" && stopped 1
    code=$?
    end_workers
    return "$code"
}

internal_topics() {
    local name out=$CONFORMANCE_LOGS/internal
    # shellcheck disable=SC2046
    tool 60 TopicCommand $(at) --describe --topic 'connect-.*' >"$out" || return
    for name in configs:1 offsets:5 status:5; do
        grep -q "Topic: connect-${name%:*}.*PartitionCount: ${name#*:}.*ReplicationFactor: 3.*cleanup.policy=compact" "$out" ||
            { cat "$out" && return 1; }
    done
    # Its workers tell one another by sessions who they are.
    grep -q 'protocol version 2' "$CONFORMANCE_LOGS/worker-1.log"
}

quiet() { pair 1 quiet && lines quiet 1000 500 && copied quiet once && lines quiet 1000 500 && copied quiet once && no_pair 1 quiet; }

# Stopped twice while lines come.
restarting() {
    pair 1 restarted && writing restarted 6000 200 && sleep 5 && stopped 1 && worker 1 && until_true 60 runs 1 restarted && sleep 3 && stopped 1 && worker 1 && written &&
        copied restarted once && no_pair 1 restarted
}

killing() { # TIMES
    pair 1 killed && writing killed $(($1 * 3000)) 200 || return
    for _ in $(seq "$1"); do
        sleep 3 && killed 1 && worker 1 && until_true 60 runs 1 killed || return
    done
    written && copied killed repeats && no_pair 1 killed
}

# The workers on which tasks run.
places() { # WORKER NAME…
    local at=$1 name kind
    shift
    for name in "$@"; do
        for kind in source sink; do
            ask "$at" GET "/connectors/$name-$kind/status" |
                json '" ".join(t["worker_id"] if t["state"] == "RUNNING" else t["state"] for t in d["tasks"]) or "none"'
        done
    done | sort -u | tr '\n' ' '
} 2>/dev/null
run_on() { # WORKERS WORKER NAME…
    local due=
    for n in $1; do due+="${REST[n]} "; done
    shift
    [ "$(places "$@")" = "$(tr ' ' '\n' <<<"$due" | grep . | sort | tr '\n' ' ')" ]
}

# Another joins, and has a share of the tasks; the first is killed, and the other has all; it comes back, and is given some.
rebalancing() {
    local names=(moved-a moved-b) name
    for name in "${names[@]}"; do pair 1 "$name" && writing "$name" 8000 100 || return; done
    worker 2 && until_true 90 run_on "1 2" 1 "${names[@]}" &&
        killed 1 && until_true 90 run_on 2 2 "${names[@]}" &&
        worker 1 && until_true 90 run_on "1 2" 2 "${names[@]}" &&
        stopped 2 && until_true 90 run_on 1 1 "${names[@]}" && written || return
    for name in "${names[@]}"; do copied "$name" repeats && no_pair 1 "$name" || return; done
}

# Offsets as Connect shows them, moved and forgotten: what a source has read is read again from there.
moving_offsets() {
    local name=offsets at_line_10
    pair 1 "$name" && lines "$name" 100 500 && copied "$name" once || return
    at_line_10=$(head -n 10 "$TEST_DIR/$name.in" | wc -c)
    until_true 30 shows_offset "$name" "$(wc -c <"$TEST_DIR/$name.in")" && until_true 60 done_by 1 PUT "/connectors/$name-source/stop" &&
        until_true 60 done_by 1 PATCH "/connectors/$name-source/offsets" \
            "{\"offsets\": [{\"partition\": {\"filename\": \"$TEST_DIR/$name.in\"}, \"offset\": {\"position\": $at_line_10}}]}" &&
        shows_offset "$name" "$at_line_10" && until_true 60 done_by 1 PUT "/connectors/$name-source/resume" || return
    (cat "$TEST_DIR/$name.in" && tail -n 90 "$TEST_DIR/$name.in") >"$TEST_DIR/due"
    until_true 60 have_lines "$TEST_DIR/$name.out" 190 && cmp "$TEST_DIR/due" "$TEST_DIR/$name.out" || return
    # A sink's are those of its group.
    until_true 60 done_by 1 PUT "/connectors/$name-sink/stop" && until_true 60 done_by 1 DELETE "/connectors/$name-sink/offsets" &&
        rm "$TEST_DIR/$name.out" && until_true 60 done_by 1 PUT "/connectors/$name-sink/resume" &&
        until_true 60 have_lines "$TEST_DIR/$name.out" 190 && cmp "$TEST_DIR/due" "$TEST_DIR/$name.out" && no_pair 1 "$name"
}
shows_offset() { [ "$(ask 1 GET "/connectors/$1-source/offsets" | json 'd["offsets"][0]["offset"]["position"]')" = "$2" ]; } 2>/dev/null
have_lines() { [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

brokers_killed() {
    pair 1 bounced && writing bounced $((BOUNCE_SECONDS * 100)) 100 && bounce && written && until_true 120 runs 1 bounced && copied bounced repeats && no_pair 1 bounced
}

build || fail "Kafka Connect"
quick internal_topics_are_made lines_are_copied_once_while_the_worker_is_killed
begin connect 1 0
try internal_topics_are_made alone internal_topics
try lines_are_copied_once alone quiet
try lines_are_copied_once_while_the_worker_is_restarted alone restarting
try lines_are_copied_once_while_the_worker_is_killed alone killing "$([ -n "${QUICK:-}" ] && echo 1 || echo 3)"
try tasks_move_between_workers alone rebalancing
try offsets_are_shown_moved_and_forgotten alone moving_offsets
try lines_are_copied_once_while_brokers_are_killed alone brokers_killed
end
