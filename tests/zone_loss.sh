#!/usr/bin/env bash
# Three zones, each with a broker and a bucket (an S3 server) of its own. Under load one zone is lost, the broker and the
# bucket with everything in it: no acknowledged record may be lost or become unreadable, and writes go on. Then the zone
# comes back with an empty bucket, until every object has three copies again; then another zone is lost, which shows
# that the copies are good.
#
#   tests/zone_loss.sh [KIND…]   kill hang     SECONDS_LOST=20 RATE=500 (records per second and writer) VICTIM=2 PROFILE=dev
#
# kill: broker and bucket by kill -9, the bucket is emptied. hang: the bucket keeps its data and says nothing (SIGSTOP).
set -u
CLUSTER_STORES=zonal
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

read -ra KINDS <<<"${*:-kill hang}"
SECONDS_LOST=${SECONDS_LOST:-20} RATE=${RATE:-500} VICTIM=${VICTIM:-2}
NEXT=$((VICTIM % 3 + 1))
COPIES_SECONDS_MAX=240
# Small caches: what is read comes from the buckets.
export MILEPOST_CACHE_BYTES=4MiB MILEPOST_STORE_COMPARE_EVERY=10s

recording() { kill -0 "$TEST_CHILD" 2>/dev/null || fail "the recorder ended: $(tail -n 3 "$TEST_DIR/run.out")"; }

# record HISTORY
record() {
    "$RDKAFKA_HISTORY" run --bootstrap "$CLUSTER_BOOTSTRAP" --zones "$CLUSTER_ZONES" --history "$1" \
        --records-per-second "$RATE" >"$TEST_DIR/run.out" 2>&1 &
    TEST_CHILD=$!
}

# Ends the load; the recorder then reads everything once more in every zone.
stop_recording() {
    recording
    kill -TERM "$TEST_CHILD"
    wait "$TEST_CHILD" || fail "the recorder: $(cat "$TEST_DIR/run.out")"
    TEST_CHILD=
}

wait_whole() {
    cluster_wait_ready >&2 || return 1
    python3 "$CLUSTER_ROOT/tests/whole.py" 60 "${CLUSTER_METRICS[@]}" >/dev/null
}

# The line of the audit that counts copies.
copies() { "$CLUSTER_BIN/milepost" audit --bootstrap "$CLUSTER_BOOTSTRAP" | tee "$TEST_DIR/audit.out" | sed -n 's/^copies: //p'; }

# Sum of a counter over the brokers.
metric() {
    local n
    for n in 1 2 3; do curl -fsS "http://${CLUSTER_METRICS[n]}/metrics" 2>/dev/null; done |
        awk -v name="milepost_$1" '$1 == name { sum += $2 } END { print sum + 0 }'
}

# lose KIND ZONE
lose() {
    echo "$(date +%s%N) empty $2" >>"$TEST_DIR/faults-$1"
    if [ "$1" = hang ]; then kill -STOP "${CLUSTER_S3_PIDS[$2]}"; else cluster_kill_store "$2"; fi
    cluster_kill_broker "$2"
}

# bring_back KIND ZONE
bring_back() {
    if [ "$1" = hang ]; then kill -CONT "${CLUSTER_S3_PIDS[$2]}"; else cluster_launch_store "$2" || return 1; fi
    cluster_launch_broker "$2"
}

# three_copies KIND BEGAN
three_copies() {
    local counted
    until counted=$(copies) && [[ $counted =~ ^3\ of\ [0-9]+\ objects$ ]]; do
        [ $((SECONDS - $2)) -lt "$COPIES_SECONDS_MAX" ] || fail "$1: not three copies in time: $counted"
        sleep 2
    done
    echo "$1: copies: $counted, $((SECONDS - $2)) s after the zone came back; $(tail -n 1 "$TEST_DIR/audit.out")"
}

round() {
    local kind=$1 began counted history=$TEST_DIR/history-$1.jsonl
    record "$history"
    sleep 3
    wait_whole || fail "the cluster did not become whole"
    sleep 8
    lose "$kind" "$VICTIM"
    echo "$kind: zone az$VICTIM is lost, its broker and its bucket"
    sleep "$SECONDS_LOST"
    # Everything is read once more in every zone: those of the lost one are served elsewhere.
    stop_recording
    cat "$TEST_DIR/run.out"
    "$RDKAFKA_HISTORY" check --history "$history" --faults "$TEST_DIR/faults-$kind" || fail "$kind: the history"
    if [ "$kind" = kill ]; then
        counted=$(copies) || fail "$kind: the audit while the zone is lost: $(cat "$TEST_DIR/audit.out")"
        echo "$kind: while the zone is lost: $(tail -n 1 "$TEST_DIR/audit.out")"
        echo "$kind: while the zone is lost: copies: $counted"
    fi

    began=$SECONDS
    record "$TEST_DIR/history-$kind-repair.jsonl"
    bring_back "$kind" "$VICTIM" || fail "zone az$VICTIM did not come back"
    wait_whole || fail "$kind: the cluster did not become whole"
    echo "$kind: whole $((SECONDS - began)) s after the zone came back"
    stop_recording
    "$RDKAFKA_HISTORY" check --history "$TEST_DIR/history-$kind-repair.jsonl" >"$TEST_DIR/check.out" ||
        fail "$kind: the history while it was repaired: $(cat "$TEST_DIR/check.out")"
    tail -n 1 "$TEST_DIR/check.out"
    three_copies "$kind" "$began"
    echo "$kind: copies given up $(metric zonal_given_up_total), made again $(metric zonal_repaired_total)," \
        "late $(metric zonal_late_total), LISTs $(metric zonal_lists_total) in $(metric zonal_compared_total) comparisons"

    # What was copied is as good as what was written.
    lose "$kind-next" "$NEXT"
    counted=$(copies) || fail "$kind: the audit without az$NEXT: $(cat "$TEST_DIR/audit.out")"
    echo "$kind: without az$NEXT, too: $(tail -n 1 "$TEST_DIR/audit.out")"
    began=$SECONDS
    bring_back "$kind-next" "$NEXT" && wait_whole || fail "zone az$NEXT did not come back"
    three_copies "$kind, az$NEXT" "$began"
}

build_rdkafka_cases || fail "building the stock client"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
for kind in "${KINDS[@]}"; do round "$kind"; done
for n in 1 2 3; do
    kill -0 "${CLUSTER_PIDS[n]}" 2>/dev/null || fail "broker $n ended by itself"
done
echo "zone loss: ${KINDS[*]}: nothing lost, writes went on, three copies again"
