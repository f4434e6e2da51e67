# shellcheck shell=bash
# What the suites share. To be sourced by bash, by a script of the suite's name:
#
#   begin SUITE PARTITIONS SECONDS [BROKERS]   a fresh cluster of three zones, or as many as BROKERS; topics made without
#                               a count get PARTITIONS, and a new group waits for more members for SECONDS
#   try NAME COMMAND…           one test: passed when COMMAND ends with 0, skipped (by its own word) with 77, else failed
#   quick NAME…                 what QUICK=1 leaves of the suite
#   end                         `SUITE: N passed, M failed, K excepted`; fails unless M is 0
#
# A name may be PASS:TEST, where a suite is run several times; what is said of TEST holds in every pass.
# SUITE.exceptions names tests that need not pass, one a line, with the reason. They are not run, except with
# EXCEPTED=1, which shows those that pass by now. A test that skips itself proves nothing: it fails, or is an exception.
# SUITE.again names tests that have a second go, likewise; it is shown, and AGAIN=1 in it.
# ONLY=PATTERN runs the tests that match a shell pattern. CLUSTER_PREBUILT=DIR takes the broker from there.
# TARGET=kafka runs the suite against Apache Kafka instead, which tells a fault of ours from one of the suite's.

. "$(dirname "${BASH_SOURCE[0]}")/../target.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../clients/install.sh"
CONFORMANCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CONFORMANCE_BUILD=$CLUSTER_TARGET/conformance
PASSED=0 FAILED=0 EXCEPTIONS=0
declare -A QUICK_TESTS=()
mkdir -p "$CONFORMANCE_BUILD"

begin() {
    SUITE=$1 CONFORMANCE_LOGS=$TEST_DIR/$1.tests
    mkdir -p "$CONFORMANCE_LOGS"
    export MILEPOST_NUM_PARTITIONS=$2 MILEPOST_GROUP_INITIAL_REBALANCE_DELAY=$3s
    # Tests that wait for each record would take as many tenths of a second: ten PUTs per second are about money.
    export MILEPOST_PUTS_PER_SECOND=100 MILEPOST_PUTS_BURST=100
    export KAFKA_PROPERTIES="${KAFKA_PROPERTIES:-}"$'\n'"num.partitions=$2"$'\n'"group.initial.rebalance.delay.ms=$(($3 * 1000))"
    cluster_start "$TEST_DIR/$SUITE" "${4:-3}" || fail "starting the cluster"
}

quick() {
    local name
    for name in "$@"; do QUICK_TESTS[$name]=1; done
}

excepted() { named_in exceptions "$1"; }
named_in() { grep -qs -e "^$2 " -e "^${2#*:} " "$CONFORMANCE_DIR/$SUITE.$1"; }

try() {
    local name=$1 log=$CONFORMANCE_LOGS/${1//\//.}.log started=$SECONDS code
    shift
    [ -z "${QUICK:-}" ] || [ -n "${QUICK_TESTS[${name#*:}]:-}" ] || return 0
    # shellcheck disable=SC2053 # ONLY is a pattern
    [ -z "${ONLY:-}" ] || [[ $name == $ONLY || ${name#*:} == $ONLY ]] || return 0
    if excepted "$name" && [ -z "${EXCEPTED:-}" ]; then
        EXCEPTIONS=$((EXCEPTIONS + 1))
        return 0
    fi
    "$@" >"$log" 2>&1
    code=$?
    if [ "$code" -ne 0 ] && named_in again "$name"; then
        printf 'again    %3d s  %s\n' "$((SECONDS - started))" "$name"
        mv "$log" "$log.first"
        AGAIN=1 "$@" >"$log" 2>&1
        code=$?
    fi
    local took=$((SECONDS - started))
    if [ "$code" -eq 0 ]; then
        PASSED=$((PASSED + 1))
        printf 'ok       %3d s  %s%s\n' "$took" "$name" "$(excepted "$name" && echo '  (no exception any more)')"
    elif excepted "$name"; then
        EXCEPTIONS=$((EXCEPTIONS + 1))
        printf 'excepted %3d s  %s\n' "$took" "$name"
    else
        FAILED=$((FAILED + 1))
        printf 'FAILED   %3d s  %s%s\n' "$took" "$name" "$([ "$code" -eq 77 ] && echo '  (skips itself)')"
        tail -n 15 "$log" | cut -c1-300
        echo "    the whole of it: $log"
    fi
}

end() {
    local n
    if [ "${TARGET:-milepost}" = milepost ]; then
        for n in $(seq "$CLUSTER_BROKERS"); do
            kill -0 "${CLUSTER_PIDS[n]}" 2>/dev/null && continue
            FAILED=$((FAILED + 1))
            echo "FAILED   broker $n ended by itself"
        done
    fi
    echo "$SUITE: $PASSED passed, $FAILED failed, $EXCEPTIONS excepted"
    [ "$FAILED" -eq 0 ]
}

# A writable copy of a crate's source as the registry has it, at $CONFORMANCE_BUILD/NAME.
crate_source() { # NAME VERSION
    local there=$CONFORMANCE_BUILD/$1 fetch=$CONFORMANCE_BUILD/fetch-$1 manifest
    [ -e "$there/.fetched-$2" ] && return
    rm -rf "$fetch" "$there" && mkdir -p "$fetch/src" && touch "$fetch/src/lib.rs"
    printf '[workspace]\n[package]\nname = "fetch"\nversion = "0.0.0"\n[dependencies]\n%s = "=%s"\n' "$1" "$2" >"$fetch/Cargo.toml"
    manifest=$(cargo metadata --quiet --format-version 1 --manifest-path "$fetch/Cargo.toml" |
        python3 -c 'import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' "$1") || return
    cp -r "$(dirname "$manifest")" "$there" && chmod -R u+w "$there" && rm -rf "$fetch" || return
    # Else cargo takes it for a member of ours.
    printf '\n[workspace]\n' >>"$there/Cargo.toml" && touch "$there/.fetched-$2"
}

# Builds the integration tests of a crate and prints their programs. Both Rust suites share a target directory, and the
# installed toolchain, whichever theirs is.
crate_tests() { # NAME TEST…
    local name=$1 test args=()
    shift
    for test in "$@"; do args+=(--test "$test"); done
    (cd "$CONFORMANCE_BUILD/$name" && RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-stable} CARGO_TARGET_DIR=$CONFORMANCE_BUILD/cargo \
        cargo test --no-run "${args[@]}" 2>&1) | tee "$CONFORMANCE_BUILD/$name.build.log" | sed -n 's/^ *Executable .*(\(.*\))$/\1/p'
    return "${PIPESTATUS[0]}"
}

# One test of a Rust test program, in a process of its own: one that hangs holds up no other. rskafka's print that they
# skip themselves and pass.
rust_test() { # PROGRAM TEST
    local output
    output=$(timeout -k 5 "${TEST_SECONDS_MAX:-300}" "$1" --exact "$2" --nocapture --test-threads 1 2>&1)
    local code=$?
    # rust-rdkafka logs everything that librdkafka does.
    tail -n 5000 <<<"$output"
    [ "$code" -ne 0 ] || ! grep -qi '^skipping ' <<<"$output" || return 77
    return "$code"
}

# Every test of the programs, as PROGRAM.TEST; a test that is ignored stays so.
rust_tests() { # PROGRAM…
    local program name test
    for program in "$@"; do
        name=$(basename "$program")
        for test in $("$program" --list --format terse 2>/dev/null | sed -n 's/: test$//p'); do
            try "${name%-*}.$test" rust_test "$program" "$test"
        done
    done
}
