#!/usr/bin/env bash
# Batches that no stock client sends: what a cluster answers to each is what Apache Kafka answers, or differs for a
# stated reason.
#
#   tests/bad_input.sh           TARGET=milepost (or kafka) PROFILE=dev
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
python3 "$CLUSTER_ROOT/tests/bad_batches.py" "${CLUSTER_KAFKA[1]:-${CLUSTER_BOOTSTRAP%%,*}}" "${TARGET:-milepost}" ||
    fail "an answer"
audit || fail "the audit"
