#!/usr/bin/env bash
# Runs the stock-client suites against a cluster, each installing what it needs.
#
#   run.sh BOOTSTRAP [SUITE…]       suites: rdkafka confluent kafka-python kcat java franz kafkajs kafka-go sarama
#
# BROKERS=N is the number of brokers (1); ZONES=az1=HOST:PORT,… adds the cases across zones. One line for
# each suite at the end; logs stay in target/clients/logs. Exits 1 when a case failed or a suite did not run to its end.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/build.sh"
. "$HERE/install.sh"
BOOTSTRAP=$1
shift
BUILD=$STOCK_BUILD
mkdir -p "$BUILD/logs"

install_kcat() {
    command -v kcat >/dev/null && return
    apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q kcat >/dev/null
}

suite() {
    case $1 in
    rdkafka) build_rdkafka_cases && "$RDKAFKA_CASES" cases --bootstrap "$BOOTSTRAP" ;;
    confluent) install_python && "$BUILD/python/bin/python" "$HERE/python/cases.py" confluent "$BOOTSTRAP" ;;
    kafka-python) install_python && "$BUILD/python/bin/python" "$HERE/python/cases.py" kafka_python "$BOOTSTRAP" ;;
    kcat) install_kcat && "$HERE/kcat/run.sh" "$BOOTSTRAP" ;;
    java) "$HERE/java/run.sh" "$BOOTSTRAP" ;;
    franz | kafka-go | sarama) install_go "$1" && "$BUILD/$1" "$BOOTSTRAP" ;;
    kafkajs) install_kafkajs && NODE_PATH=$BUILD/kafkajs/node_modules node "$HERE/kafkajs/cases.js" "$BOOTSTRAP" ;;
    *) echo "no such suite" && return 2 ;;
    esac
}

[ $# -gt 0 ] || set -- rdkafka confluent kafka-python kcat java franz kafkajs kafka-go sarama
failed=0 lines=()
for name in "$@"; do
    log=$BUILD/logs/$name.log
    echo "--- $name"
    suite "$name" >"$log" 2>&1
    code=$?
    grep -E '^(ok|FAILED) ' "$log"
    line=$(grep -E ': [0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    if [ "$code" -ne 0 ]; then
        failed=1
        tail -n 40 "$log" | cut -c1-400
    fi
    lines+=("${line:-$name: 0 passed, 1 failed}")
done
echo "--- stock clients"
printf '%s\n' "${lines[@]}"
exit "$failed"
