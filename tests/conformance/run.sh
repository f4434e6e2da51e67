#!/usr/bin/env bash
# Suites that other people wrote, as they come from their registries, each against a fresh cluster of three zones.
#
#   run.sh [SUITE…]       librdkafka franz-go rskafka rust-rdkafka kafka-tools connect streams; all by default
#
# A line `SUITE: N passed, M failed, K excepted` for each at the end; fails when a test outside SUITE.exceptions did.
# QUICK=1 runs a subset of a few minutes. lib.sh says what else can be asked for.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -gt 0 ] || set -- librdkafka franz-go rskafka rust-rdkafka kafka-tools connect streams
failed=0 lines=()
for suite in "$@"; do
    echo "--- $suite"
    shown=$(mktemp)
    "$HERE/$suite.sh" 2>&1 | tee "$shown"
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
    line=$(grep -E "^$suite: [0-9]+ passed, [0-9]+ failed, [0-9]+ excepted$" "$shown" | tail -n 1)
    [ -n "$line" ] || failed=1
    lines+=("${line:-$suite: did not run to its end}")
    rm "$shown"
done
echo "--- conformance"
printf '%s\n' "${lines[@]}"
exit "$failed"
