#!/usr/bin/env bash
# Idempotent production while the broker that leads is killed (kill -9) and started again, ROUNDS
# times; then every zone's broker must give back everything that was acknowledged, once, in order.
#
#   tests/kill.sh            ROUNDS=3 RATE=2000 PROFILE=dev TARGET=milepost
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

ROUNDS=${ROUNDS:-3} RATE=${RATE:-2000} TOPIC=acked
ACKED=$TEST_DIR/acked.log

# The number of the broker that leads partition 0, as a client without a zone sees it.
leader() {
    local n
    for n in $(seq "$CLUSTER_BROKERS"); do
        python3 "$CLUSTER_ROOT/examples/cluster_brokers.py" "${CLUSTER_KAFKA[n]}" kill "$TOPIC" 2>/dev/null |
            awk '$1 == "partition" && $2 == 0 && $3 >= 0 { print $3; found = 1 } END { exit !found }' && return
    done
    return 1
}

lines() { wc -l <"$ACKED"; }

# Waits until more has been acknowledged (the log is written in blocks).
wait_progress() {
    local before deadline=$((SECONDS + 60))
    before=$(lines)
    while [ "$(lines)" -le "$before" ]; do
        kill -0 "$TEST_CHILD" 2>/dev/null || fail "the producer ended: $(tail -n 3 "$TEST_DIR/produce.out")"
        [ "$SECONDS" -lt "$deadline" ] || fail "nothing was acknowledged for 60 s"
        sleep 0.2
    done
}

build_rdkafka_cases || fail "building the stock client"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
"$RDKAFKA_CASES" produce --bootstrap "$CLUSTER_BOOTSTRAP" --topic "$TOPIC" --log "$ACKED" \
    --records-per-second "$RATE" >"$TEST_DIR/produce.out" 2>&1 &
TEST_CHILD=$!
until [ -e "$ACKED" ]; do
    kill -0 "$TEST_CHILD" 2>/dev/null || fail "the producer ended: $(cat "$TEST_DIR/produce.out")"
    sleep 0.1
done

for round in $(seq "$ROUNDS"); do
    wait_progress
    victim=$(leader) || fail "no broker names a leader"
    cluster_kill_broker "$victim"
    echo "round $round: killed broker $victim, the leader of partition 0"
    wait_progress
    cluster_launch_broker "$victim"
    cluster_wait_ready || fail "broker $victim did not come back"
done
wait_progress

kill -TERM "$TEST_CHILD"
wait "$TEST_CHILD" || fail "the producer: $(cat "$TEST_DIR/produce.out")"
TEST_CHILD=
cat "$TEST_DIR/produce.out"
"$RDKAFKA_CASES" verify --bootstrap "$CLUSTER_BOOTSTRAP" --topic "$TOPIC" --log "$ACKED" --zones "$CLUSTER_ZONES" ||
    fail "not everything acknowledged is there once"
audit || fail "the audit"
echo "kill: $ROUNDS kills survived, nothing lost, nothing doubled"
