#!/usr/bin/env bash
# Starts one or three Apache Kafka brokers on free ports of 127.0.0.1.
#
#   kafka.sh start DIR [BROKERS]    prints "bootstrap HOSTS"; data, logs and process ids stay in DIR
#   kafka.sh stop DIR               ends them
set -u
. "$(dirname "${BASH_SOURCE[0]}")/kafka_cluster.sh"

case "${1:-}" in
start)
    if cluster_start "$2" "${3:-1}"; then
        printf '%s\n' "${CLUSTER_PIDS[@]}" >"$CLUSTER_DIR/pids"
        disown -a
        echo "bootstrap $CLUSTER_BOOTSTRAP"
    else
        cluster_logs >&2
        cluster_stop
        exit 1
    fi
    ;;
stop)
    while read -r pid; do
        # The id may belong to another process by now: only a Kafka with this folder is meant.
        tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "^$2/broker-" || continue
        kill "$pid"
        for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null && sleep 0.1; done
        kill -9 "$pid" 2>/dev/null
    done <"$2/pids"
    rm "$2/pids"
    ;;
*)
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
