#!/usr/bin/env bash
# rskafka's own tests: a codec that shares nothing with the others.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export TEST_SECONDS_MAX=${TEST_SECONDS_MAX:-120}

# The rsasl that its lock file names does not compile with newer Rusts.
newer_rsasl() { (cd "$CONFORMANCE_BUILD/rskafka" && RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-stable} cargo update --quiet -p rsasl); }

{ crate_source rskafka 0.6.0 && newer_rsasl && programs=$(crate_tests rskafka client consumer produce_consume producer); } ||
    fail "building rskafka's tests"
quick client.test_plain client.test_topic_crud client.test_produce_empty client.test_consume_empty client.test_get_offset \
    client.test_produce_consume_size_cutoff client.test_delete_records consumer.test_stream_consumer_start_at_0 \
    consumer.test_stream_consumer_offset_out_of_range produce_consume.test_produce_rskafka_consume_rskafka_zstd \
    produce_consume.test_produce_rskafka_consume_rdkafka_lz4 producer.test_batch_producer
# One waits for a topic that nobody makes, by an old Metadata that makes topics; and one connects to port 9000, where nobody
# is to listen.
export MILEPOST_AUTO_CREATE_TOPICS=false KAFKA_PROPERTIES=auto.create.topics.enable=false CLUSTER_PORTS_FROM=9400
begin rskafka 1 0
# Without the Java client half of the pairs of clients would pass and do nothing.
export TEST_INTEGRATION=1 TEST_JAVA_INTEROPT=1 TEST_BROKER_IMPL=kafka KAFKA_CONNECT=$CLUSTER_BOOTSTRAP
# shellcheck disable=SC2086 # the paths of programs have no blanks
rust_tests $programs
end
