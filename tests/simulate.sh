#!/usr/bin/env bash
# Whole clusters in simulated time, one process per seed: the seeds that once found a fault (tests/simulation/seeds),
# then SEEDS new ones. Every tenth runs twice and must leave the same trace.
#
#   tests/simulate.sh [SEEDS] [FIRST]      default: 20 seeds from 1 on; SECONDS_OF_FAULTS=45, JOBS=2
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seeds=${1:-20} first=${2:-1}
out=$(mktemp -d)
began=$SECONDS
trap 'rm -rf "$out"' EXIT

# Raft does most of the work here: with optimisation a seed takes two thirds of the time.
binary=$(cargo build --quiet --config profile.dev.package.milepost-raft.opt-level=1 --features simulation \
    --example simulation --message-format=json | sed -n 's/.*"name":"simulation".*"executable":"\([^"]*\)".*/\1/p')
[ -x "$binary" ] || { echo "the simulation was not built" >&2; exit 1; }
echo "built after $((SECONDS - began)) s"

# Runs one seed; a failed one leaves its trace.
one() {
    local seed=$1 trace=$out/$1.log
    "$binary" "$seed" --seconds "${SECONDS_OF_FAULTS:-45}" --trace "$trace" >"$out/$seed.txt" 2>"$out/$seed.err"
    local code=$?
    if [ "$code" -ne 0 ]; then
        echo "seed $seed: exit code $code" >>"$out/failed"
        cat "$out/$seed.err" >>"$out/failed"
        cp "$trace" "${TMPDIR:-/tmp}/milepost-simulation-$seed.log"
        echo "its trace is ${TMPDIR:-/tmp}/milepost-simulation-$seed.log" >>"$out/failed"
    elif [ $((seed % 10)) -eq 0 ]; then
        "$binary" "$seed" --seconds "${SECONDS_OF_FAULTS:-45}" --trace "$trace.again" >/dev/null 2>&1
        cmp "$trace" "$trace.again" >>"$out/failed" 2>&1 && echo "$seed" >>"$out/same"
    fi
    grep '^seed' "$out/$seed.txt"
    rm -f "$trace" "$trace.again"
}
export -f one
export binary out

for mutant in store producer; do
    "$binary" 1 --seconds 20 --trace "$out/mutant.log" --mutant "$mutant" >/dev/null 2>&1 &&
        echo "the simulation is blind: mutant $mutant passes" >>"$out/failed"
done

{ grep -o '^[0-9]*' tests/simulation/seeds; seq "$first" $((first + seeds - 1)); } | awk '!seen[$0]++' |
    xargs -P "${JOBS:-2}" -I{} bash -c 'one {}'

echo
echo "faults over all seeds:"
cat "$out"/*.txt | awk '/^fault/ { n = $2; $1 = $2 = ""; sum[$0] += n; if (!order[$0]++) names[++kinds] = $0 }
    END { for (k = 1; k <= kinds; k++) printf "%8d %s\n", sum[names[k]], names[k] }'
cat "$out"/*.txt | sed -n 's/^seed.*: \([0-9.]*\) s simulated in \([0-9.]*\) s (\([0-9.]*\) s of CPU), \([0-9]*\) records ack.*, \([0-9]*\) read.*/\1 \2 \3 \4 \5/p' |
    awk '{ s += $1; w += $2; c += $3; a += $4; r += $5 } END {
        printf "%d seeds, %.0f s simulated; a simulated minute took %.1f s, %.1f s of CPU; %d records acknowledged, %d read\n",
            NR, s, s ? w * 60 / s : 0, s ? c * 60 / s : 0, a, r }'
[ -s "$out/same" ] && echo "the same trace twice: seeds $(tr '\n' ' ' <"$out/same")"
if [ -s "$out/failed" ]; then
    echo
    cat "$out/failed" >&2
    exit 1
fi
