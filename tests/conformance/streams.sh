#!/usr/bin/env bash
# An application of Kafka Streams that counts exactly once (streams/Count.java), with state stores, changelogs, standby
# replicas and a repartition topic, while its instances are closed, killed and started again, and brokers are killed.
#
# Kafka's own programs for this are published by nobody; these do the same and check more: every single result, not the last
# of each key.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/java.sh"
PROGRAMS=$CONFORMANCE_BUILD/streams
declare -A INSTANCES=()

build() {
    install_java && install_java streams || return
    rm -rf "$PROGRAMS" && mkdir -p "$PROGRAMS"
    javac -d "$PROGRAMS" -cp "$(cat "$STOCK_BUILD/kafka-streams.classpath")" "$CONFORMANCE_DIR"/streams/*.java
}

program() { # CLASS ARGUMENT…
    local class=$1
    shift
    exec java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=WARN \
        -cp "$PROGRAMS:$(cat "$STOCK_BUILD/kafka-streams.classpath")" "$class" "$CLUSTER_BOOTSTRAP" "$@"
}

begin_application() { # NAME
    APPLICATION=$1-$RUN INSTANCES=()
    local name
    for name in data keys buckets; do topic "$APPLICATION-$name" 4 || return; done
}

# Instance N, with the state that it left.
instance() { # N [PROPERTY=VALUE…]
    local n=$1 log=$CONFORMANCE_LOGS/$APPLICATION-$1.log
    shift
    echo "--- started" >>"$log"
    program Count "$APPLICATION" "$TEST_DIR/$APPLICATION-$n" "$@" >>"$log" 2>&1 &
    INSTANCES[$n]=$!
}

# Since its last start it has joined, and has restored the state of its partitions.
running() { # N…
    local n until=$((SECONDS + 90))
    for n in "$@"; do
        until awk '/^--- started/ { up = 0 } / REBALANCING -> RUNNING/ { up = 1 } END { exit !up }' "$CONFORMANCE_LOGS/$APPLICATION-$n.log"; do
            kill -0 "${INSTANCES[$n]}" 2>/dev/null || { echo "instance $n ended" && return 1; }
            [ "$SECONDS" -lt "$until" ] || { echo "instance $n is not running" && return 1; }
            sleep 0.5
        done
    done
}

closed() { # N
    kill "${INSTANCES[$1]}" 2>/dev/null || { echo "instance $1 had ended by itself" && return 1; }
    wait_for "${INSTANCES[$1]}" 90
    tail -n 3 "$CONFORMANCE_LOGS/$APPLICATION-$1.log" | grep -q ' closed$' || { echo "instance $1 was not closed" && return 1; }
}
killed() { # N
    kill -9 "${INSTANCES[$1]}" 2>/dev/null || { echo "instance $1 had ended by itself" && return 1; }
    wait "${INSTANCES[$1]}" 2>/dev/null
    return 0
}
end_instances() {
    local n
    for n in "${!INSTANCES[@]}"; do kill -9 "${INSTANCES[$n]}" 2>/dev/null && wait "${INSTANCES[$n]}" 2>/dev/null; done
}

# Everything that was written is counted; then all instances are closed, and what they left is held against it.
verified() { # WRITER
    wait_for "$1" $((BOUNCE_SECONDS + 300)) || { echo "the writer ended with $?" && return 1; }
    (program Verify "$APPLICATION" wait 180) || return
    local n
    for n in "${!INSTANCES[@]}"; do closed "$n" || return; done
    (program Verify "$APPLICATION" check) && ended_transactions
}

# Kafka's own tool knows of none that goes on.
ended_transactions() {
    # shellcheck disable=SC2046
    tool 60 TransactionsCommand $(at) list >"$CONFORMANCE_LOGS/$APPLICATION.transactions" || return
    ! grep "^$APPLICATION" "$CONFORMANCE_LOGS/$APPLICATION.transactions" | grep -v -e CompleteCommit -e CompleteAbort -e Empty
}

# CASE's writer runs meanwhile; whatever comes of it, nothing is left running.
application() { # NAME COUNT PER_SECOND COMMAND…
    local writer code
    begin_application "$1" || return
    program Generate "$APPLICATION" "$2" "$3" &
    writer=$!
    shift 3
    "$@" && verified "$writer"
    code=$?
    end_instances
    kill "$writer" 2>/dev/null
    return "$code"
}

one() { instance 1 && running 1; }

# One is added, another is killed, and comes back to what it had.
changing() {
    instance 1 && running 1 && instance 2 && running 2 && sleep 3 && killed 1 && sleep 2 && instance 1 && running 1
}

three() { instance 1 && instance 2 && instance 3 && running 1 2 3; }

# One of them goes, by one way or the other, and comes back.
goes() { # TIMES
    local n=$(($1 % 3 + 1))
    if [ $(($1 % 2)) -eq 0 ]; then closed "$n"; else killed "$n"; fi && instance "$n"
}

coming_and_going() { # TIMES
    local times
    three || return
    for times in $(seq "$1"); do goes "$times" && running $((times % 3 + 1)) || return; done
}

# Members with a name of their own, which come back before their session ends.
static_members() {
    instance 1 group.instance.id=one && instance 2 group.instance.id=two && running 1 2 && sleep 3 &&
        closed 1 && sleep 2 && instance 1 group.instance.id=one && running 1 &&
        killed 2 && sleep 2 && instance 2 group.instance.id=two && running 2
}

brokers_killed() { three && bounce; }
everything_killed() { three && bounce goes; }

# The protocol of KIP-1071 is not spoken here: an application that asks for it is told so, and ends.
streams_protocol() {
    begin_application streams-protocol && instance 1 group.protocol=streams || return
    local log=$CONFORMANCE_LOGS/$APPLICATION-1.log code
    if [ "${TARGET:-milepost}" = kafka ]; then
        running 1
        code=$?
        end_instances
        return "$code"
    fi
    wait_for "${INSTANCES[1]}" 60
    code=$?
    end_instances
    [ "$code" -eq 1 ] && grep -m 1 'a thread gave up:.*UnsupportedVersionException' "$log" || { tail -n 20 "$log" && return 1; }
}

build || fail "Kafka Streams"
quick counts_once_while_an_instance_is_killed
begin streams 4 0
try counts_once application one 10000 2000 one
try counts_once_while_an_instance_is_killed application changing 10000 400 changing
try counts_once_while_instances_come_and_go application going 60000 1000 coming_and_going 6
try counts_once_with_static_members application static 20000 500 static_members
try counts_once_while_brokers_are_killed application bounced $((BOUNCE_SECONDS * 500)) 500 brokers_killed
try counts_once_while_brokers_and_instances_are_killed application both $((BOUNCE_SECONDS * 500)) 500 everything_killed
try the_streams_protocol_is_refused_clearly streams_protocol
end
