#!/usr/bin/env bash
# Records a history of stock clients against a fresh cluster that nobody hurts, and checks it.
#
#   tests/history.sh [SECONDS]    RATE=2000 (records per second and writer; 0 for all it takes) PROFILE=dev
#                                 TARGET=milepost (or kafka)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

SECONDS_TOTAL=${1:-30} RATE=${RATE:-2000}
HISTORY_FILE=$TEST_DIR/history.jsonl

build_rdkafka_cases || fail "building the stock client"
"$RDKAFKA_HISTORY" self-test || fail "a rule does not fire on its mutant"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
"$RDKAFKA_HISTORY" run --bootstrap "$CLUSTER_BOOTSTRAP" --zones "$CLUSTER_ZONES" --history "$HISTORY_FILE" \
    --seconds "$SECONDS_TOTAL" --records-per-second "$RATE" || fail "recording the history"
"$RDKAFKA_HISTORY" check --history "$HISTORY_FILE" || fail "the history"
audit || fail "the audit"
echo "history: $SECONDS_TOTAL s against ${TARGET:-milepost} break no rule"
