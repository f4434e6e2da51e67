#!/usr/bin/env bash
# rust-rdkafka's own tests: librdkafka as Rust programs use it; administration, groups, transactions.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export TEST_SECONDS_MAX=${TEST_SECONDS_MAX:-180}

{ crate_source rdkafka 0.39.0 && programs=$(crate_tests rdkafka test_high_consumers test_low_consumers test_high_producers \
    test_low_producers test_transactions test_metadata test_admin); } ||
    fail "building rust-rdkafka's tests"
quick test_high_consumers.test_produce_consume_base test_high_consumers.test_produce_consume_with_timestamp \
    test_high_consumers.test_consumer_commit_message test_low_consumers.test_produce_consume_seek \
    test_low_producers.test_base_producer_headers test_transactions.test_transaction_commit test_admin.test_topics
# They describe and assign to broker 0; and test_metadata is content with one broker alone, at the usual port.
export CLUSTER_FIRST_ID=0 KAFKA_VERSION=4.0.0
begin rust-rdkafka 3 0
export KAFKA_HOST=$CLUSTER_BOOTSTRAP
# shellcheck disable=SC2046 # the paths of programs have no blanks
rust_tests $(grep -v test_metadata <<<"$programs")
if [ -z "${QUICK:-}" ]; then
    cluster_stop
    cluster_start "$TEST_DIR/rust-rdkafka-alone" 1 || fail "starting one broker"
    export KAFKA_HOST=$CLUSTER_BOOTSTRAP
    # shellcheck disable=SC2046 # as above
    rust_tests $(grep test_metadata <<<"$programs")
fi
end
