#!/usr/bin/env bash
# Records a history of stock clients, with and without transactions, against a fresh cluster, and checks it. Nobody hurts
# the cluster, unless KILL says so.
#
#   tests/history.sh [SECONDS]    RATE=2000 (records per second and writer; 0 for all it takes) PROFILE=dev
#                                 TRANSACTIONS=6 (workers in transactions) TARGET=milepost (or kafka)
#                                 KILL=10 (a broker, each in its turn, is killed so often, and comes back 2 s later)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

SECONDS_TOTAL=${1:-30} RATE=${RATE:-2000} TRANSACTIONS=${TRANSACTIONS:-6} KILL=${KILL:-0} AWAY_SECONDS=2
HISTORY_FILE=$TEST_DIR/history.jsonl FAULTS=$TEST_DIR/faults

# Kills until the recorder is about to end, so that the last look is at a whole cluster.
kill_in_turn() {
    local began=$SECONDS victim=0
    while [ $((SECONDS - began + KILL)) -le "$SECONDS_TOTAL" ]; do
        sleep $((KILL - AWAY_SECONDS))
        victim=$((victim % CLUSTER_BROKERS + 1))
        echo "$(date +%s%N) kill $victim" >>"$FAULTS"
        cluster_kill_broker "$victim"
        sleep "$AWAY_SECONDS"
        cluster_launch_broker "$victim"
        cluster_wait_ready || fail "broker $victim did not come back"
    done
}

build_rdkafka_cases || fail "building the stock client"
"$RDKAFKA_HISTORY" self-test || fail "a rule does not fire on its mutant"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
"$RDKAFKA_HISTORY" run --bootstrap "$CLUSTER_BOOTSTRAP" --zones "$CLUSTER_ZONES" --history "$HISTORY_FILE" \
    --seconds "$SECONDS_TOTAL" --records-per-second "$RATE" --transactions "$TRANSACTIONS" &
TEST_CHILD=$!
: >"$FAULTS"
[ "$KILL" -eq 0 ] || kill_in_turn
wait "$TEST_CHILD" || fail "recording the history"
TEST_CHILD=
"$RDKAFKA_HISTORY" check --history "$HISTORY_FILE" --faults "$FAULTS" || fail "the history"
audit || fail "the audit"
echo "history: $SECONDS_TOTAL s against ${TARGET:-milepost} break no rule, $(wc -l <"$FAULTS") times killed"
