# shellcheck shell=bash
# The shape of a suite written in shell: `claim NAME COMMAND…` runs one case, `tally SUITE` ends. To be
# sourced by bash.

PASSED=0 FAILED=0

# A case passes when its command does; its output is shown only when it does not.
claim() {
    local name=$1 started=$SECONDS output
    shift
    if output=$("$@" 2>&1); then
        PASSED=$((PASSED + 1))
        printf 'ok      %3d s  %s\n' $((SECONDS - started)) "$name"
    else
        FAILED=$((FAILED + 1))
        printf 'FAILED  %3d s  %s\n' $((SECONDS - started)) "$name"
        printf '%s\n' "$output" | tail -n 20 | cut -c1-400
    fi
}

# Holds that two words are the same.
same() {
    [ "$1" = "$2" ] || { echo "got: ${1:0:300}" && echo "due: ${2:0:300}" && return 1; }
}

# Runs `COMMAND…` until it succeeds, ten seconds at most: metadata has no notification.
until_true() {
    local deadline=$((SECONDS + 10))
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { echo "never became true: $*" && return 1; }
        sleep 0.1
    done
}

tally() {
    echo "$1: $PASSED passed, $FAILED failed"
    [ "$FAILED" -eq 0 ]
}
