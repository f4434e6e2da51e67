#!/usr/bin/env bash
# Brokers are killed (kill -9), stopped, emptied (kill -9, the data directory removed) and frozen (they go on later as
# if nothing had been) at random moments, never two at once, while idempotent and transactional producers, readers and a
# group that copies exactly once go on through every broker; then the history is checked and the store audited.
#
#   tests/crash.sh [TIMES]    SEED (chosen and printed) RATE=500 (records per second and writer) KINDS="kill empty freeze stop"
#                             PROFILE=dev
#
# The next broker is hurt only when the cluster is whole again: every broker names three, and every shard has three
# voters with its whole log, the one that came back included.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

TIMES=${1:-10} SEED=${SEED:-$((($(date +%s%N) / 1000) % 32768))} RATE=${RATE:-500}
read -ra KINDS <<<"${KINDS:-kill kill kill empty empty freeze stop}"
WHOLE_SECONDS_MAX=60
HISTORY_FILE=$TEST_DIR/history.jsonl FAULTS=$TEST_DIR/faults
RANDOM=$SEED

# A pause of A to B tenths of a second.
pause() {
    local tenths=$(($1 + RANDOM % ($2 - $1 + 1)))
    sleep "$((tenths / 10)).$((tenths % 10))"
}

recording() {
    kill -0 "$TEST_CHILD" 2>/dev/null || fail "the recorder ended: $(tail -n 3 "$TEST_DIR/run.out")"
}

# hurt KIND BROKER: the broker does nothing any more when this returns.
hurt() {
    echo "$(date +%s%N) $1 $2" >>"$FAULTS"
    case $1 in
    kill) cluster_kill_broker "$2" ;;
    empty) cluster_kill_broker "$2" && rm -rf "$CLUSTER_DIR/broker-$2" ;;
    stop) kill "${CLUSTER_PIDS[$2]}" && wait "${CLUSTER_PIDS[$2]}" ;;
    freeze) kill -STOP "${CLUSTER_PIDS[$2]}" ;;
    *) fail "no such kind: $1" ;;
    esac
}

# heal KIND BROKER
heal() {
    case $1 in
    freeze) kill -CONT "${CLUSTER_PIDS[$2]}" ;;
    *) cluster_launch_broker "$2" ;;
    esac
}

# Prints the seconds it took and the bytes that each broker has received since its start.
wait_whole() {
    cluster_wait_ready >&2 || return 1
    python3 "$CLUSTER_ROOT/tests/whole.py" "$WHOLE_SECONDS_MAX" "${CLUSTER_METRICS[@]}"
}

echo "SEED=$SEED $0 $TIMES"
build_rdkafka_cases || fail "building the stock client"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
"$RDKAFKA_HISTORY" run --bootstrap "$CLUSTER_BOOTSTRAP" --zones "$CLUSTER_ZONES" --history "$HISTORY_FILE" \
    --records-per-second "$RATE" --seed "$SEED" >"$TEST_DIR/run.out" 2>&1 &
TEST_CHILD=$!
sleep 2
wait_whole >/dev/null || fail "the cluster did not become whole"

for round in $(seq "$TIMES"); do
    pause 10 60
    recording
    kind=${KINDS[RANDOM % ${#KINDS[@]}]} victim=$((1 + RANDOM % 3))
    hurt "$kind" "$victim"
    pause 12 40
    began=$(date +%s%N)
    heal "$kind" "$victim"
    whole=$(wait_whole) || fail "round $round: broker $victim, $kind: the cluster did not become whole"
    read -ra received <<<"$whole"
    printf 'round %d: %s of broker %d, whole %d ms after it came back, %d bytes received by then\n' "$round" "$kind" \
        "$victim" $((($(date +%s%N) - began) / 1000000)) "${received[victim]}"
done

pause 20 20
recording
kill -TERM "$TEST_CHILD"
wait "$TEST_CHILD" || fail "the recorder: $(cat "$TEST_DIR/run.out")"
TEST_CHILD=
cat "$TEST_DIR/run.out"
"$RDKAFKA_HISTORY" check --history "$HISTORY_FILE" --faults "$FAULTS" || fail "the history, with SEED=$SEED"
audit || fail "the audit, with SEED=$SEED"
for n in 1 2 3; do
    kill -0 "${CLUSTER_PIDS[n]}" 2>/dev/null || fail "broker $n ended by itself"
done
echo "crash: $TIMES times hurt, no rule broken"
