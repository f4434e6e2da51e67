#!/usr/bin/env bash
# librdkafka's own tests, those that need a broker: all of them are tried, the exceptions say why not.
#
#   PASSES="plain idempotent consumer"     plain; with idempotence on in every producer; with the consumer protocol;
#                                          all three by default, but QUICK=1 is plain alone
#
# Only QUICK=1 gives the runner -Q: it leaves out whatever is not marked as quick, and calls a test passed of which
# nothing is left (0018, 0019 and 0026 send no request). A pass within two milliseconds is none here.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
SOURCE=$CONFORMANCE_BUILD/rdkafka-sys/librdkafka
# 0113 alone takes more than ten minutes.
SECONDS_MAX=${TEST_SECONDS_MAX:-1200}

prepare() {
    crate_source rdkafka-sys 4.10.0+2.12.1 || return
    [ -x "$SOURCE/tests/test-runner" ] && return
    # Three tests read statistics with it, and else skip themselves.
    [ -e /usr/include/rapidjson/document.h ] || { apt-get update -q && apt-get install -y -q rapidjson-dev; } >/dev/null
    # The tests are built once and run for seconds: not optimised, they are there sooner.
    (cd "$SOURCE" && ./configure --disable-curl && make -j"${JOBS:-1}" libs &&
        make -j"${JOBS:-1}" -C tests CPPFLAGS='-fPIC -I../src -I../../src' build) \
        >"$CONFORMANCE_BUILD/librdkafka.build.log" 2>&1 || { tail -n 20 "$CONFORMANCE_BUILD/librdkafka.build.log" && return 1; }
}

# A few tests call Kafka's scripts, or programs of their own in Java: a folder that looks like Kafka's.
kafka_path() {
    install_java || return
    local jar java='exec java -Xmx256m -XX:TieredStopAtLevel=1 -Dlog4j2.level=ERROR -cp'
    export KAFKA_PATH=$CONFORMANCE_BUILD/kafka BROKERS=$CLUSTER_BOOTSTRAP
    mkdir -p "$KAFKA_PATH/bin" "$KAFKA_PATH/libs"
    for jar in $(tr ':' ' ' <"$STOCK_BUILD/kafka-tools.classpath"); do ln -sf "$jar" "$KAFKA_PATH/libs/"; done
    # shellcheck disable=SC2016 # expanded by the scripts
    {
        printf '#!/bin/sh\n%s "%s/libs/*" org.apache.kafka.tools.TopicCommand "$@"\n' "$java" "$KAFKA_PATH" \
            >"$KAFKA_PATH/bin/kafka-topics.sh"
        printf '#!/bin/sh\n%s "$CLASSPATH:%s/libs/*" "$@"\n' "$java" "$KAFKA_PATH" >"$KAFKA_PATH/bin/kafka-run-class.sh"
    }
    chmod +x "$KAFKA_PATH"/bin/*
}

# NAME SCENARIO EMULATION of every test that talks to a broker, out of the runner's table.
listed() {
    python3 - "$SOURCE/tests/test.c" <<'P'
import re, sys
for name, rest in re.findall(r"^    _TEST\((\d\w+),((?:[^()]|\([^()]*\))*)\)", open(sys.argv[1]).read(), re.M):
    if "TEST_F_LOCAL" in rest or "TEST_F_MANUAL" in rest:
        continue
    scenario = re.search(r'scenario = "(\w+)', rest)
    print(name, scenario.group(1) if scenario else "default", "emulated" if "SOCKEM" in rest else "plain")
P
}

# The runner chooses by number, and several tests may have one: the first of them runs all, the rest looks it up.
# NAME.PART is one part of a test that is many.
librdkafka_test() { # PASS NAME SCENARIO EMULATION
    local number=${2%%_*} flags=(-p1 -L -K -s "$3") part=
    [[ $2 != *.* ]] || part=${2#*.}:
    local report=$CONFORMANCE_LOGS/$1.$3.$number.${part}json
    [ "$4" = emulated ] || flags+=(-E)
    [ "$1" = idempotent ] && flags+=(-P)
    [ -z "${QUICK:-}" ] || flags+=(-Q)
    [ -z "${AGAIN:-}" ] || rm -f "$report"
    if [ ! -e "$report" ]; then
        (cd "$SOURCE/tests" && LD_LIBRARY_PATH=../src:../src-cpp RDKAFKA_TEST_CONF=$CONFORMANCE_LOGS/test.conf \
            TEST_KAFKA_VERSION=4.0.0 TEST_CONSUMER_GROUP_PROTOCOL=$([ "$1" = consumer ] && echo consumer || echo classic) \
            TESTS=$number SUBTESTS=$part TEST_REPORT=$report timeout -k 5 "$SECONDS_MAX" ./test-runner "${flags[@]}" 2>&1) ||
            echo "the runner ended with $?"
    fi | tee "$report.output"
    # A runner of which no part is left has passed, by its own word.
    grep -q "\[ $part.*: PASS" "$report.output" || [ -z "$part" ] || { echo "did not pass, or left itself out" && return 1; }
    python3 - "$report" "${2%%.*}" <<'P'
import json, sys
try:
    test = json.load(open(sys.argv[1]))["tests"][sys.argv[2]]
    state = test["state"]
    if state == "PASSED" and test["duration"] < 0.002:
        state = "SKIPPED"
except (OSError, ValueError, KeyError) as error:
    state = f"no report: {error}"
print(state)
sys.exit({"PASSED": 0, "SKIPPED": 77}.get(state, 1))
P
}

# The parts of a test that looks at so many APIs that some need what others do not.
parts() { # NAME
    [ "$1" = 0081_admin ] || { echo "$1" && return; }
    grep -oE '^(static void )?do_test_\w+' "$SOURCE/tests/0081-admin.c" | grep -oE 'do_test_\w+' | sort -u |
        grep -vE '_(apis|acls_count)$' | sed "s/^/$1./"
}

suite() { # PASS SCENARIO
    local name part scenario emulation
    printf 'bootstrap.servers=%s\ntest.timeout.multiplier=%s\n' "$CLUSTER_BOOTSTRAP" "${PATIENCE:-2}" \
        >"$CONFORMANCE_LOGS/test.conf"
    while read -r name scenario emulation <&3; do
        [ "$scenario" = "$2" ] || continue
        for part in $(parts "$name"); do try "$1:$part" librdkafka_test "$1" "$part" "$scenario" "$emulation"; done
    done 3<"$CONFORMANCE_LOGS/list"
}

prepare || fail "building librdkafka's tests"
quick 0001_multiobj 0005_order 0012_produce_consume 0015_offsets_seek 0017_compression 0022_consume_batch 0030_offset_commit \
    0031_get_offsets 0039_event_dr 0054_offset_time 0059_bsearch 0073_headers 0103_transactions 0107_topic_recreate
# 0089 and 0113 count on it that consumers which start together are in the group's first generation.
begin librdkafka 4 3
listed >"$CONFORMANCE_LOGS/list"
if [ -z "${PASSES:-}" ]; then
    PASSES=plain
    [ -n "${QUICK:-}" ] || PASSES="plain idempotent consumer"
fi
kafka_path || fail "Kafka's tools"
for pass in $PASSES; do suite "$pass" default; done
if [ -z "${QUICK:-}" ]; then
    cluster_stop
    export MILEPOST_AUTO_CREATE_TOPICS=false KAFKA_PROPERTIES="$KAFKA_PROPERTIES"$'\n'auto.create.topics.enable=false
    cluster_start "$TEST_DIR/librdkafka-noautocreate" 3 || fail "starting the cluster that creates no topics"
    BROKERS=$CLUSTER_BOOTSTRAP
    for pass in $PASSES; do suite "$pass" noautocreate; done
fi
end
