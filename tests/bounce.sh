#!/usr/bin/env bash
# Stock clients, each with a zone in its id and its rack, write and read while one broker of four is bounced every
# minute, stopped and killed (kill -9) in turn. Every client must go on after every bounce, and have read at the end
# all that was acknowledged to it.
#
#   tests/bounce.sh [MINUTES]      10 by default. CLIENTS="java librdkafka franz kafkajs kafka-go" RATE=50 (records per
#                                  second and client) PROGRESS_SECONDS_MAX=30 DOWN_SECONDS=5 PERIOD_SECONDS=60
#                                  PROFILE=dev TARGET=milepost
#
# Topics have three replicas, so each of the four brokers lacks some partitions and serves its zone all the same.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"
. "$(dirname "${BASH_SOURCE[0]}")/clients/install.sh"

MINUTES=${1:-10} RATE=${RATE:-50} DOWN_SECONDS=${DOWN_SECONDS:-5} PERIOD_SECONDS=${PERIOD_SECONDS:-60}
PROGRESS_SECONDS_MAX=${PROGRESS_SECONDS_MAX:-30}
read -ra CLIENTS <<<"${CLIENTS:-java librdkafka franz kafkajs kafka-go}"
BOUNCES=$TEST_DIR/bounces
declare -A PID=()

launch() { # NAME ZONE
    local topic=bounce-$1 out=$TEST_DIR/$1.progress command
    case $1 in
    java) command=(java -Xmx256m -XX:+UseSerialGC -Dlog4j2.level=ERROR -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" "$STOCK_DIR/java/Bounce.java") ;;
    librdkafka) command=("$STOCK_BUILD/python/bin/python" "$STOCK_DIR/python/bounce.py") ;;
    kafkajs) command=(env "NODE_PATH=$STOCK_BUILD/kafkajs/node_modules" node "$STOCK_DIR/kafkajs/bounce.js") ;;
    franz | kafka-go) command=("$STOCK_BUILD/$1" bounce) ;;
    *) fail "no such client: $1" ;;
    esac
    : >"$out"
    "${command[@]}" "$CLUSTER_BOOTSTRAP" "$topic" "$2" "$RATE" >"$out" 2>"$TEST_DIR/$1.err" &
    PID[$1]=$!
}

end_clients() {
    local name
    for name in "${!PID[@]}"; do kill "$@" "${PID[$name]}" 2>/dev/null; done
}
# finish takes the exit code that it finds.
# Without a client left, `wait` would wait for the brokers.
trap 'code=$?; end_clients -9; [ "${#PID[@]}" -eq 0 ] || wait "${PID[@]}" 2>/dev/null; (exit "$code"); finish' EXIT

alive() {
    local name
    for name in "${CLIENTS[@]}"; do
        kill -0 "${PID[$name]}" 2>/dev/null || fail "$name ended: $(tail -n 5 "$TEST_DIR/$name.err")"
    done
}

# All clients have written and read something.
wait_begun() {
    local name deadline=$((SECONDS + 120))
    for name in "${CLIENTS[@]}"; do
        until awk '$2 > 0 && $3 > 0 { found = 1 } END { exit !found }' "$TEST_DIR/$name.progress"; do
            alive
            [ "$SECONDS" -lt "$deadline" ] || fail "$name did not begin: $(tail -n 3 "$TEST_DIR/$name.progress" "$TEST_DIR/$name.err")"
            sleep 0.2
        done
    done
}

# A broker's ports are nobody's while it is away: in a network of its own they stay free for it.
if [ -z "${OWN_NETWORK:-}" ]; then
    install_python && install_java && install_kafkajs && install_go franz && install_go kafka-go ||
        fail "installing the clients"
    cluster_build || fail "building the cluster"
    export TEST_DIR OWN_NETWORK=no
    if unshare -n ip link set lo up 2>/dev/null; then
        exec unshare -n bash -c 'ip link set lo up && OWN_NETWORK=yes exec "$0" "$@"' "$0" "$@"
    fi
fi
cluster_start "$TEST_DIR" 4 || fail "starting the cluster"
: >"$BOUNCES"
for at in "${!CLIENTS[@]}"; do launch "${CLIENTS[at]}" "az$((1 + at % 4))"; done
wait_begun

echo "${#CLIENTS[@]} clients at $RATE records per second each; a bounce every $PERIOD_SECONDS s for $MINUTES min"
for bounce in $(seq $((MINUTES * 60 / PERIOD_SECONDS))); do
    began=$SECONDS victim=$((1 + (bounce - 1) % 4)) kind=stop
    [ $((bounce % 2)) -eq 0 ] && kind=kill
    echo "$(date +%s%3N) $kind $victim" >>"$BOUNCES"
    case $kind in
    kill) cluster_kill_broker "$victim" ;;
    stop) kill "${CLUSTER_PIDS[victim]}" && wait "${CLUSTER_PIDS[victim]}" ;;
    esac
    sleep "$DOWN_SECONDS"
    cluster_launch_broker "$victim"
    cluster_wait_ready || fail "broker $victim did not come back"
    alive
    echo "bounce $bounce: $kind of broker $victim, whole again after $((SECONDS - began)) s"
    while [ $((SECONDS - began)) -lt "$PERIOD_SECONDS" ]; do sleep 0.2; done
done
alive
echo "$(date +%s%3N) end 0" >>"$BOUNCES"
end_clients
for name in "${CLIENTS[@]}"; do
    wait "${PID[$name]}"
    code=$?
    # Java ends by the signal that its hook has answered.
    [ "$code" -eq 0 ] || { [ "$name" = java ] && [ "$code" -eq 143 ]; } || fail "$name ended with $code: $(tail -n 5 "$TEST_DIR/$name.err")"
done
PID=()
python3 "$CLUSTER_ROOT/tests/bounce.py" "$TEST_DIR" "$PROGRESS_SECONDS_MAX" "${CLIENTS[@]}" || fail "a client was stuck"
audit || fail "the audit"
