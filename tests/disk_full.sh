# shellcheck shell=bash
# The disk under one broker's Raft log fills up. To be sourced by trouble.sh, whose functions it uses.
#
# The broker says why it stops and ends; clients go on through the others; started again on the full disk it says why it
# cannot; when there is room it comes back with what it had.

DISK_BROKER=3 DISK_MIB=48 DISK_SECONDS_MAX=40 DISK=

# Gives the broker a small disk of its own, before the cluster starts.
prepare_disk_full() {
    [[ " ${KINDS[*]} " == *" disk-full "* ]] || return 0
    local dir=$TEST_DIR/broker-$DISK_BROKER
    mkdir -p "$dir"
    if mount -t tmpfs -o "size=${DISK_MIB}m" tmpfs "$dir" 2>/dev/null; then
        DISK=$dir
        trap 'code=$?; umount -l "$DISK"; (exit "$code"); finish' EXIT
    fi
}

# Waits until the broker has ended by itself, and tells its exit code.
wait_ended() {
    local waited=0
    while kill -0 "${CLUSTER_PIDS[DISK_BROKER]}" 2>/dev/null; do
        [ $((waited += 1)) -le $((DISK_SECONDS_MAX * 10)) ] || return 1
        sleep 0.1
    done
    wait "${CLUSTER_PIDS[DISK_BROKER]}" 2>/dev/null
    [ $? -eq 1 ]
}

# says TEXT: the broker's log has a line with it since mark_log.
mark_log() { LOG_LINES=$(wc -l <"$TEST_DIR/logs/broker-$DISK_BROKER.log"); }
says() {
    tail -n "+$((LOG_LINES + 1))" "$TEST_DIR/logs/broker-$DISK_BROKER.log" | grep -m1 -- "$1" ||
        fail "disk-full: the broker's log does not say: $1"
}

disk_full() {
    if [ -z "$DISK" ]; then
        echo "disk-full: skipped, mounting is not allowed here"
        return
    fi
    local began healed
    forget_peaks
    record disk-full
    sleep 6
    recording disk-full
    mark_log
    began=$(now)
    # Ends by itself when there is no room.
    head -c "$((DISK_MIB + 1))M" /dev/zero >"$DISK/filler" 2>/dev/null
    wait_ended || fail "disk-full: the broker does not end on a full disk"
    says 'the raft log is poisoned.*No space left' >&2
    says 'this broker stops' >&2
    sleep 5
    recording disk-full
    mark_log
    cluster_launch_broker "$DISK_BROKER"
    wait_ended || fail "disk-full: the broker does not refuse to start on a full disk"
    says 'No space left' >&2
    rm "$DISK/filler"
    cluster_launch_broker "$DISK_BROKER"
    cluster_wait_ready || fail "disk-full: the broker did not come back"
    healed=$(now)
    sleep 10
    verdict disk-full "$began" "$healed" -
}
