#!/usr/bin/env bash
# What one broker takes, and how it serves an ordinary client, while very many others are there: 200 that offer as much
# as they can to a throttled store, 10,000 that idle, 1,000 that read at a trickle.
#
#   tests/connections.sh [KIND…]     kinds: offer idle slow; SECONDS_EACH=20 PROFILE=dev
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

KINDS=("$@")
[ "${#KINDS[@]}" -gt 0 ] || KINDS=(offer idle slow)
SECONDS_EACH=${SECONDS_EACH:-20}
# Requests twice (frames, and the objects made of them), answers and slow readers' part (3/8), the cache; the base is
# what an idle broker has, its allocator's slack, the bodies of GETs under way, and 10,000 connections.
MEMORY_MIB=256 CACHE_MIB=64 BASE_MIB=200
MEMORY_MIB_MAX=$((2 * MEMORY_MIB + 3 * MEMORY_MIB / 8 + CACHE_MIB + BASE_MIB))
export MILEPOST_MEMORY_BYTES_MAX=${MEMORY_MIB}MiB MILEPOST_CACHE_BYTES=${CACHE_MIB}MiB
ulimit -n 12000 || fail "this needs 12,000 open files"

CLUSTER_S3_ARGS="--put-latency-ms 100 --get-latency-ms 20"
cluster_start "$TEST_DIR" 1 || fail "starting the broker"
echo "memory: at most $MEMORY_MIB_MAX MiB"
for kind in "${KINDS[@]}"; do
    if [ "$kind" = offer ]; then
        curl -sf "$CLUSTER_S3/_milepost/faults" -d '{"operation": "put", "rate": 0.5, "fault": "slow_down"}' >/dev/null ||
            fail "throttling the store"
    fi
    python3 "$CLUSTER_ROOT/tests/connections.py" "$kind" "${CLUSTER_KAFKA[1]}" "${CLUSTER_PIDS[1]}" "$SECONDS_EACH" \
        "$MEMORY_MIB_MAX" || fail "$kind"
    curl -sf -X DELETE "$CLUSTER_S3/_milepost/faults" >/dev/null
    curl -sf "http://${CLUSTER_METRICS[1]}/metrics" | grep -E '^milepost_(readers_dropped|memory_waits)' | sed 's/^/  /'
done
kill -0 "${CLUSTER_PIDS[1]}" 2>/dev/null || fail "the broker ended by itself"
