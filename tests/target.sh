# shellcheck shell=bash
# What the cluster tests share: TARGET=milepost (or kafka) chooses the cluster; a failure shows the
# logs; whatever was started is ended by process id. KEEP=1 keeps the files of a success too. To be sourced by bash.

. "$(dirname "${BASH_SOURCE[0]}")/clients/build.sh"
case "${TARGET:-milepost}" in
milepost) . "$(dirname "${BASH_SOURCE[0]}")/../examples/cluster.sh" ;;
kafka) . "$(dirname "${BASH_SOURCE[0]}")/clients/kafka_cluster.sh" ;;
*) echo "TARGET is milepost or kafka, not $TARGET" >&2 && exit 2 ;;
esac

TEST_DIR=${TEST_DIR:-$(mktemp -d)}

# Every live pointer against the store; Kafka has none.
audit() { [ "${TARGET:-milepost}" = kafka ] || "$CLUSTER_BIN/milepost" audit --bootstrap "$CLUSTER_BOOTSTRAP"; }

# Ends the test with a reason and the logs.
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

finish() {
    local code=$?
    [ -n "${TEST_CHILD:-}" ] && kill "$TEST_CHILD" 2>/dev/null
    cluster_stop
    if [ "$code" -ne 0 ]; then
        cluster_logs >&2
        echo "everything is kept in $TEST_DIR" >&2
    elif [ -n "${KEEP:-}" ]; then
        echo "everything is kept in $TEST_DIR" >&2
    else
        rm -rf "$TEST_DIR"
    fi
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM
