#!/usr/bin/env bash
# The one test command: the workspace's own tests, then a real three-broker cluster under every
# stock-client suite, then the audit of what they left behind.
#
#   tests/run.sh [SUITE…]      suites as in tests/clients/run.sh; all by default
#
# Needs Rust, a C toolchain, Python 3, a JDK with Maven, Go, Node, curl and pgrep; the rest is installed by name.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

# The stamp of the shell that reads the log: where the time goes.
step() { printf '\n=== %s (after %d s)\n' "$*" "$SECONDS"; }

step "cargo test"
(cd "$CLUSTER_ROOT" && cargo test --workspace) || fail "cargo test"
step "simulated clusters"
SECONDS_OF_FAULTS=20 "$CLUSTER_ROOT/tests/simulate.sh" 2 10 || fail "a simulated cluster"
step "tests of the stock client's own parts"
(cd "$RDKAFKA_CASES_DIR" && CARGO_TARGET_DIR=$RDKAFKA_CASES_TARGET cargo test --quiet --locked) || fail "rdkafka-cases' own tests"

step "three brokers"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
zones=
for n in 1 2 3; do zones+=${zones:+,}az$n=${CLUSTER_KAFKA[n]}; done

step "stock clients"
BROKERS=3 ZONES=$zones "$CLUSTER_ROOT/tests/clients/run.sh" "$CLUSTER_BOOTSTRAP" "$@" ||
    fail "a stock client"

step "a history of writers, readers, listers and transactions in every zone"
"$RDKAFKA_HISTORY" self-test >/dev/null || fail "a rule of the history checker stays silent on its mutant"
"$RDKAFKA_HISTORY" run --bootstrap "$CLUSTER_BOOTSTRAP" --zones "$CLUSTER_ZONES" --history "$TEST_DIR/history.jsonl" \
    --seconds 30 || fail "recording the history"
"$RDKAFKA_HISTORY" check --history "$TEST_DIR/history.jsonl" || fail "the history"

step "batches that no stock client sends"
python3 "$CLUSTER_ROOT/tests/bad_batches.py" "${CLUSTER_KAFKA[1]}" || fail "the answer to a bad batch"

step "audit"
audit || fail "the audit"
for n in 1 2 3; do
    kill -0 "${CLUSTER_PIDS[n]}" 2>/dev/null || fail "broker $n ended by itself"
done
cluster_stop

step "trouble of the object store"
TEST_DIR=$TEST_DIR/trouble PARTLY=2 WHOLLY=5 "$CLUSTER_ROOT/tests/trouble.sh" 500 lost-reply || fail "trouble"

step "five stock clients while brokers are bounced"
TEST_DIR=$TEST_DIR/bounce PERIOD_SECONDS=30 "$CLUSTER_ROOT/tests/bounce.sh" 1 || fail "a client was stuck"
step "suites that other people wrote"
# All of them take more than an hour: WHOLE=1.
if [ -z "${WHOLE:-}" ]; then export QUICK=1; fi
TEST_DIR=$TEST_DIR/conformance "$CLUSTER_ROOT/tests/conformance/run.sh" || fail "a suite that other people wrote"
step "everything passed"
