# shellcheck shell=bash
# Builds the librdkafka programs once and names them RDKAFKA_CASES, RDKAFKA_HISTORY and RDKAFKA_ZONE_LOAD. To be sourced by bash.
RDKAFKA_CASES_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/rdkafka" && pwd)
RDKAFKA_CASES_TARGET=${CARGO_TARGET_DIR:-$(cd "$RDKAFKA_CASES_DIR/../../.." && pwd)/target}
RDKAFKA_CASES=$RDKAFKA_CASES_TARGET/debug/rdkafka-cases
RDKAFKA_HISTORY=$RDKAFKA_CASES_TARGET/debug/history
RDKAFKA_ZONE_LOAD=$RDKAFKA_CASES_TARGET/debug/zone-load

build_rdkafka_cases() {
    (cd "$RDKAFKA_CASES_DIR" && CARGO_TARGET_DIR=$RDKAFKA_CASES_TARGET cargo build --quiet --locked)
}
