#!/usr/bin/env bash
# The object store misbehaves, kind after kind, while idempotent producers and readers go on through every broker:
# first for some requests, then for all of them and for longer than a broker tries one object. Then it is well again:
# the history must break no rule, every producer must go on by itself, every pointer must find its object, and no
# broker may have taken more memory than its settings allow.
#
#   tests/trouble.sh [KIND…]     RATE=500 (records per second and writer) PARTLY=8 WHOLLY=18 (seconds) PROFILE=dev
#
# Kinds of the store: 500 slow-down hang truncated short slow-body lost-reply late conflict precondition unreachable
# frozen. Of a broker: disk-full (the disk under a Raft log; needs the right to mount).
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

KINDS=("$@")
STORE_KINDS=(500 slow-down hang truncated short slow-body lost-reply late conflict precondition unreachable frozen)
[ "${#KINDS[@]}" -gt 0 ] || KINDS=("${STORE_KINDS[@]}" disk-full)
RATE=${RATE:-500} PARTLY=${PARTLY:-8} WHOLLY=${WHOLLY:-18}
PARTLY_RATE=0.6
# A broker holds at most its requests twice (as frames and as the objects made of them) and its cache; the base is what
# an idle broker has, its allocator's slack, and the bodies of GETs under way.
MEMORY_MIB=64 CACHE_MIB=64 BASE_MIB=160
MEMORY_MIB_MAX=$((2 * MEMORY_MIB + CACHE_MIB + BASE_MIB))
export MILEPOST_MEMORY_BYTES_MAX=${MEMORY_MIB}MiB MILEPOST_CACHE_BYTES=${CACHE_MIB}MiB MILEPOST_REQUEST_BYTES_MAX=16MiB
ALL_BROKERS=(1 2 3)

now() { date +%s%N; }

recording() {
    kill -0 "$TEST_CHILD" 2>/dev/null || fail "$1: the recorder ended: $(tail -n 3 "$TEST_DIR/run-$1.out")"
}

# order OPERATION RATE FAULT
order() {
    curl -sf "$CLUSTER_S3/_milepost/faults" -d "{\"operation\": \"$1\", \"rate\": $2, \"fault\": $3}" >/dev/null ||
        fail "ordering $3"
}

# trouble KIND RATE: what the store does from now on.
trouble() {
    local rate=$2
    curl -sf -X DELETE "$CLUSTER_S3/_milepost/faults" >/dev/null || fail "the store's control does not answer"
    case $1 in
    500) for op in put get head; do order "$op" "$rate" '"internal_error"'; done ;;
    slow-down) for op in put get head; do order "$op" "$rate" '"slow_down"'; done ;;
    hang) for op in put get head; do order "$op" "$rate" '{"hang_ms": 60000}'; done ;;
    truncated) order get "$rate" '"truncated_body"' ;;
    short) order get "$rate" '"short_body"' ;;
    slow-body) order get "$rate" '{"slow_body_ms": 9000}' ;;
    lost-reply) for op in put get; do order "$op" "$rate" '"lost_reply"'; done ;;
    # Longer than a broker tries one object.
    late) order put "$rate" '{"late_ms": 20000}' ;;
    conflict) order put "$rate" '"conflict"' ;;
    precondition) order put "$rate" '"precondition_failed"' ;;
    unreachable) curl -sf "$CLUSTER_S3/_milepost/outage" -d $((WHOLLY * 1000)) >/dev/null || fail "ordering an outage" ;;
    frozen) kill -STOP "${CLUSTER_PIDS[0]}" ;;
    *) fail "no such kind: $1" ;;
    esac
}

heal() {
    if [ "$1" = frozen ]; then kill -CONT "${CLUSTER_PIDS[0]}"; fi
    if [ "$1" != unreachable ]; then curl -sf -X DELETE "$CLUSTER_S3/_milepost/faults" >/dev/null || fail "healing"; fi
}

hits() {
    curl -sf "$CLUSTER_S3/_milepost/stats" |
        python3 -c 'import json, sys; print(sum(json.load(sys.stdin)["hit"].values()))'
}

# The highest memory of each broker since forget_peaks, in MiB.
peaks() {
    local n
    for n in "${ALL_BROKERS[@]}"; do
        awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/${CLUSTER_PIDS[n]}/status"
    done
}

forget_peaks() {
    local n
    for n in "${ALL_BROKERS[@]}"; do echo 5 >"/proc/${CLUSTER_PIDS[n]}/clear_refs"; done
}

record() {
    "$RDKAFKA_HISTORY" run --bootstrap "$CLUSTER_BOOTSTRAP" --zones "$CLUSTER_ZONES" --history "$TEST_DIR/$1.jsonl" \
        --records-per-second "$RATE" --life-seconds-min 600 >"$TEST_DIR/run-$1.out" 2>&1 &
    TEST_CHILD=$!
}

# verdict KIND BEGAN HEALED HITS: ends the recording, checks everything, prints the kind's line.
verdict() {
    local kind=$1 line peak all_peaks
    recording "$kind"
    kill -TERM "$TEST_CHILD"
    wait "$TEST_CHILD" || fail "$kind: the recorder: $(cat "$TEST_DIR/run-$kind.out")"
    TEST_CHILD=
    "$RDKAFKA_HISTORY" check --history "$TEST_DIR/$kind.jsonl" >"$TEST_DIR/check-$kind.out" ||
        fail "$kind: the history: $(cat "$TEST_DIR/check-$kind.out")"
    line=$(python3 "$CLUSTER_ROOT/tests/trouble.py" "$TEST_DIR/$kind.jsonl" "$2" "$3") || fail "$kind: $line"
    audit >"$TEST_DIR/audit-$kind.out" 2>&1 || fail "$kind: the audit: $(cat "$TEST_DIR/audit-$kind.out")"
    read -ra all_peaks <<<"$(peaks | tr '\n' ' ')"
    printf '%-13s %6s %s  %s MiB\n' "$kind" "$4" "$line" "${all_peaks[*]}"
    for peak in "${all_peaks[@]}"; do
        [ "$peak" -le "$MEMORY_MIB_MAX" ] || fail "$kind: a broker took $peak MiB, more than $MEMORY_MIB_MAX"
    done
}

store_trouble() {
    local kind=$1 began healed before
    forget_peaks
    record "$kind"
    sleep 6
    recording "$kind"
    before=$(hits)
    began=$(now)
    case $kind in
    # Partly reachable or partly frozen there is not.
    unreachable | frozen) ;;
    *) trouble "$kind" "$PARTLY_RATE" && sleep "$PARTLY" ;;
    esac
    trouble "$kind" 1 && sleep "$WHOLLY"
    heal "$kind"
    healed=$(now)
    sleep 10
    verdict "$kind" "$began" "$healed" $(($(hits) - before))
}

. "$CLUSTER_ROOT/tests/disk_full.sh"

build_rdkafka_cases || fail "building the stock client"
prepare_disk_full
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
echo "memory: each broker at most $MEMORY_MIB_MAX MiB (2 x $MEMORY_MIB of requests, $CACHE_MIB of cache, $BASE_MIB base)"
printf '%-13s %6s %s\n' kind hit "$(python3 "$CLUSTER_ROOT/tests/trouble.py")  peaks"
for kind in "${KINDS[@]}"; do
    case $kind in
    disk-full) disk_full ;;
    *) store_trouble "$kind" ;;
    esac
done
for n in 1 2 3; do
    kill -0 "${CLUSTER_PIDS[n]}" 2>/dev/null || fail "broker $n ended by itself"
done
echo "trouble: ${#KINDS[@]} kinds, no rule broken, every producer went on by itself"
