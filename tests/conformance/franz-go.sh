#!/usr/bin/env bash
# franz-go's own tests: the client (pkg/kgo) and the administration client (pkg/kadm).
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A module's source is what the registry has, tests included.
module_tests() { # NAME MODULE@VERSION PACKAGE
    local there=$CONFORMANCE_BUILD/$1 source
    [ -x "$there.test" ] && return
    source=$(go mod download -json "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])') || return
    rm -rf "$there" && cp -r "$source" "$there" && chmod -R u+w "$there" || return
    (cd "$there" && GOFLAGS=-mod=mod go test -p 1 -c -o "$there.test" "$3")
}

# Tests look for files of their package where they run.
go_test() { # PROGRAM DIR TEST
    local output=$CONFORMANCE_LOGS/$3.output code
    (cd "$2" && timeout -k 5 "$SECONDS_MAX" "$1" -test.v -test.count 1 -test.run "^$3\$" >"$output" 2>&1)
    code=$?
    # With every record that a client logs these are long; the reasons come last.
    tail -n 5000 "$output"
    [ "$code" -eq 0 ] || return "$code"
    ! grep -q "^--- SKIP: $3 " "$output" || return 77
}

go_tests() { # NAME DIR
    local test
    for test in $("$CONFORMANCE_BUILD/$1.test" -test.list '^Test'); do
        try "$1.$test" go_test "$CONFORMANCE_BUILD/$1.test" "$2" "$test"
    done
}

SECONDS_MAX=${TEST_SECONDS_MAX:-600}
module_tests kgo github.com/twmb/franz-go@v1.22.3 ./pkg/kgo || fail "building kgo's tests"
module_tests kadm github.com/twmb/franz-go/pkg/kadm@v1.20.0 . || fail "building kadm's tests"
quick kgo.TestPing kgo.TestProcessHooks kgo.TestIssue325 kgo.TestConsumeRegex kgo.TestIssue337 kgo.TestAddRemovePartitions \
    kgo.TestIssue648 kgo.TestIssue865 kgo.TestClient_Produce kgo.TestClient_ProduceLargeMessages kgo.TestGroupSimple \
    kgo.TestLookbackMilli kgo.TestIssueFetchLargerThanBrokerMaxReadBytes
begin franz-go 3 0
export KGO_SEEDS=$CLUSTER_BOOTSTRAP KGO_TEST_RECORDS=${RECORDS:-50000} KGO_LOG_LEVEL=${KGO_LOG_LEVEL:-info}
go_tests kgo "$CONFORMANCE_BUILD/kgo/pkg/kgo"
go_tests kadm "$CONFORMANCE_BUILD/kadm"
end
