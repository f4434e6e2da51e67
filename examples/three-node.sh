#!/usr/bin/env bash
# Three brokers in three zones over one S3 server, all on loopback.
#
#   examples/three-node.sh            starts them, says how to connect, ends them on Ctrl-C
#   examples/three-node.sh --check    writes BYTES (100 MB) through each zone's broker with a stock
#                                     client, reads everything back through every zone's broker, compares
#                                     counts, order and checksums, prints requests and bytes between
#                                     brokers, ends everything; exits 0 only if all of it held
#
# PROFILE=dev builds without optimisation. DATA=DIR keeps data and logs there. The usual ports (9092…,
# 9192…, 9292…, 9000) give way to free ones when taken.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PROFILE=${PROFILE:-release}
. "$HERE/cluster.sh"
. "$HERE/../tests/clients/build.sh"

CHECK=
case "${1:-}" in
"") ;;
--check) CHECK=1 ;;
*) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
WORK=${DATA:-$(mktemp -d)}

finish() {
    local code=$?
    cluster_stop
    if [ "$code" -ne 0 ] && [ "$code" -ne 130 ]; then
        cluster_logs >&2
        echo "data and logs are kept in $WORK" >&2
    elif [ -z "${DATA:-}" ]; then
        rm -rf "$WORK"
    fi
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# CLUSTER_KAFKA or CLUSTER_METRICS as "name=address,…".
with_names() { # PREFIX ADDRESS…
    local prefix=$1 n=0 address pairs=
    shift
    for address in "$@"; do n=$((n + 1)) && pairs+=${pairs:+,}$prefix$n=$address; done
    echo "$pairs"
}

if [ -n "$CHECK" ]; then
    build_rdkafka_cases || { echo "building the stock client failed" >&2 && exit 1; }
fi
cluster_start "$WORK" 3 || { echo "the cluster did not start" >&2 && exit 1; }

if [ -n "$CHECK" ]; then
    "$RDKAFKA_CASES" check --bootstrap "$CLUSTER_BOOTSTRAP" --bytes-per-zone "${BYTES:-100000000}" \
        --zones "$(with_names az "${CLUSTER_KAFKA[@]}")" --metrics "$(with_names '' "${CLUSTER_METRICS[@]}")" \
        --s3 "$CLUSTER_S3" || exit 1
    "$CLUSTER_BIN/milepost" audit --bootstrap "$CLUSTER_BOOTSTRAP" || exit 1
    echo "check: passed"
    exit 0
fi

cat <<EOF
three brokers are ready
  az1  ${CLUSTER_KAFKA[1]}   metrics http://${CLUSTER_METRICS[1]}/metrics
  az2  ${CLUSTER_KAFKA[2]}   metrics http://${CLUSTER_METRICS[2]}/metrics
  az3  ${CLUSTER_KAFKA[3]}   metrics http://${CLUSTER_METRICS[3]}/metrics
  S3   $CLUSTER_S3   counters at /_milepost/stats
  logs $CLUSTER_DIR/logs

write in one zone, read in another:
  seq 100 | kcat -b $CLUSTER_BOOTSTRAP -X client.id=app,zone=az1 -P -t numbers
  kcat -b $CLUSTER_BOOTSTRAP -X client.id=app,zone=az2 -C -t numbers -o beginning -e

Ctrl-C ends them.
EOF
# Ends with the first of them that ends by itself: a cluster of two is not what was asked for.
wait -n
echo "a process ended by itself" >&2
exit 1
