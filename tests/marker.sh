#!/usr/bin/env bash
# Record bytes never reach a broker's disk: RECORDS records that all carry a marker are written, and
# every file in every broker's folder is searched for it. Then the bytes of Raft log per pointer.
#
#   tests/marker.sh          RECORDS=1000000 PROFILE=dev TARGET=milepost
#
# With TARGET=kafka it must fail: Kafka keeps the records on its disk, so the search is seen to find.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

RECORDS=${RECORDS:-1000000}
MARKER=MARKER-$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')

build_rdkafka_cases || fail "building the stock client"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
"$RDKAFKA_CASES" fill --bootstrap "$CLUSTER_BOOTSTRAP" --topic marked --marker "$MARKER" --records "$RECORDS" ||
    fail "writing"

folders=()
for n in $(seq "$CLUSTER_BROKERS"); do folders+=("$TEST_DIR/broker-$n"); done
du -sb "${folders[@]}" | sed "s|$TEST_DIR/||"
found=$(grep -rlaF -e "$MARKER" "${folders[@]}")
case $? in
0) fail "the marker stands in: $found" ;;
1) echo "marker: in none of $(find "${folders[@]}" -type f | wc -l) files" ;;
*) fail "searching the folders" ;;
esac

# A line of `inspect raft-log` is an entry: its bytes on disk, and its pointers if it carries any.
for n in $(seq "$CLUSTER_BROKERS"); do
    "$CLUSTER_BIN/milepost" inspect raft-log "$TEST_DIR/broker-$n" |
        python3 "$CLUSTER_ROOT/tests/raft_bytes.py" "broker $n" "$RECORDS" || fail "inspecting the log of broker $n"
done
audit || fail "the audit"
