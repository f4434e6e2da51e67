#!/usr/bin/env bash
# A consumer group whose coordinator is killed (kill -9) and started again, KILLS times, while its members read, commit,
# leave and come back: no committed offset goes back, is lost or rises again (A16), no partition is two members' (A17).
# Then the time that a group of MEMBERS takes to settle when one joins and when one leaves.
#
#   tests/groups.sh          KILLS=10 MEMBERS=100 PROFILE=dev TARGET=milepost
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"

KILLS=${KILLS:-10} MEMBERS=${MEMBERS:-100}
# A life of a victim, from kill to kill.
ROUND_SECONDS=6
HISTORY=$TEST_DIR/groups.jsonl COORDINATOR=$TEST_DIR/coordinator

(cd "$CLUSTER_ROOT/tests/clients/franz" && go test ./coordinator && go build -o "$COORDINATOR" ./coordinator) ||
    fail "building the members"
cluster_start "$TEST_DIR" 3 || fail "starting the cluster"
"$COORDINATOR" settle "$CLUSTER_BOOTSTRAP" "$MEMBERS" || fail "the group never settled"

# What comes back after the last kill is seen by everybody before the end.
"$COORDINATOR" run "$CLUSTER_BOOTSTRAP" $((KILLS * (ROUND_SECONDS + 4) + 20)) "$HISTORY" >"$TEST_DIR/groups.out" 2>&1 &
TEST_CHILD=$!
sleep 8
for round in $(seq "$KILLS"); do
    kill -0 "$TEST_CHILD" 2>/dev/null || fail "the members ended: $(cat "$TEST_DIR/groups.out")"
    victim=$("$COORDINATOR" find "$CLUSTER_BOOTSTRAP" coordinator-killed) || fail "nobody coordinates"
    cluster_kill_broker "$victim"
    echo "kill $round: broker $victim, the coordinator"
    sleep $((ROUND_SECONDS / 3))
    cluster_launch_broker "$victim"
    cluster_wait_ready || fail "broker $victim did not come back"
    sleep $((2 * ROUND_SECONDS / 3))
done
wait "$TEST_CHILD" || fail "the members: $(cat "$TEST_DIR/groups.out")"
TEST_CHILD=
sort "$TEST_DIR/groups.out" | uniq -c
"$COORDINATOR" check "$HISTORY" || fail "the history"
echo "$KILLS kills of the coordinator: nothing that was committed went back, was lost or rose again"
