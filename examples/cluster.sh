# shellcheck shell=bash
# A real cluster on loopback: an S3 server and brokers in zones az1, az2, … To be sourced by bash.
#
#   cluster_start DIR BROKERS     builds, starts everything, waits until every broker sees all others
#   cluster_launch_broker N       starts broker N again on its ports and data
#   cluster_kill_broker N         kill -9
#   cluster_wait_ready            until every broker's Metadata names every broker
#   cluster_stop                  ends what was started here, by process id
#   cluster_logs                  the tail of every log
#
# Sets CLUSTER_BOOTSTRAP, CLUSTER_KAFKA[N], CLUSTER_METRICS[N], CLUSTER_ZONES, CLUSTER_STORE,
# CLUSTER_S3 and CLUSTER_DIR. PROFILE is dev or release; CLUSTER_S3_ARGS goes to the S3 server. CLUSTER_PREBUILT=DIR
# takes the programs from there (milepost, examples/s3_server) and builds nothing. Brokers have the ids from
# CLUSTER_FIRST_ID on, 1 by default. CLUSTER_PORTS_FROM keeps clusters apart whose brokers are killed at the same time:
# another may take the port of a broker that is away.
#
# With CLUSTER_STORES=zonal each zone has an S3 server of its own, CLUSTER_S3[N], and objects are in all of them:
#   cluster_launch_store N        starts zone N's server again, empty
#   cluster_kill_store N          kill -9: what it holds is gone

CLUSTER_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CLUSTER_TARGET=${CARGO_TARGET_DIR:-$CLUSTER_ROOT/target}
CLUSTER_READY_SECONDS_MAX=${CLUSTER_READY_SECONDS_MAX:-60}
CLUSTER_PIDS=() # by broker number; the only store's is at 0
CLUSTER_S3_PIDS=() # by zone
CLUSTER_KAFKA=() CLUSTER_INTERNAL=() CLUSTER_METRICS=()

cluster_start() {
    CLUSTER_DIR=$1 CLUSTER_BROKERS=$2
    mkdir -p "$CLUSTER_DIR/logs"
    cluster_build || return 1
    cluster_choose_ports || return 1
    cluster_start_store || return 1
    local n
    for n in $(seq "$CLUSTER_BROKERS"); do cluster_launch_broker "$n"; done
    cluster_wait_ready
}

cluster_build() {
    if [ -n "${CLUSTER_PREBUILT:-}" ]; then
        CLUSTER_BIN=$CLUSTER_PREBUILT
        return
    fi
    local release=()
    CLUSTER_BIN=$CLUSTER_TARGET/debug
    if [ "${PROFILE:-dev}" = release ]; then release=(--release) CLUSTER_BIN=$CLUSTER_TARGET/release; fi
    (cd "$CLUSTER_ROOT" && cargo build --quiet "${release[@]}" --bin milepost --example s3_server)
}

cluster_choose_ports() {
    local n zonal=0 from=${CLUSTER_PORTS_FROM:-9000}
    local wanted=("$from")
    for n in $(seq "$CLUSTER_BROKERS"); do wanted+=($((from + 91 + n)) $((from + 191 + n)) $((from + 291 + n))); done
    if [ "${CLUSTER_STORES:-one}" = zonal ]; then
        zonal=$CLUSTER_BROKERS
        for n in $(seq "$zonal"); do wanted+=($((from + n))); done
    fi
    local ports
    ports=($(python3 "$CLUSTER_ROOT/examples/free_ports.py" "${wanted[@]}")) || return 1
    CLUSTER_S3_PORTS=("${ports[0]}" "${ports[@]:3 * CLUSTER_BROKERS + 1}") CLUSTER_ZONES=
    CLUSTER_KAFKA=() CLUSTER_INTERNAL=() CLUSTER_METRICS=() # an earlier cluster may have had more
    for n in $(seq "$CLUSTER_BROKERS"); do
        CLUSTER_KAFKA[n]=127.0.0.1:${ports[3 * n - 2]}
        CLUSTER_INTERNAL[n]=127.0.0.1:${ports[3 * n - 1]}
        CLUSTER_METRICS[n]=127.0.0.1:${ports[3 * n]}
        CLUSTER_ZONES+=${CLUSTER_ZONES:+,}az$n
    done
    CLUSTER_BOOTSTRAP=$(IFS=,; echo "${CLUSTER_KAFKA[*]}")
}

cluster_start_store() {
    export AWS_ACCESS_KEY_ID=milepost AWS_SECRET_ACCESS_KEY=milepost-secret
    if [ "${CLUSTER_STORES:-one}" = zonal ]; then
        local n
        CLUSTER_STORE=
        for n in $(seq "$CLUSTER_BROKERS"); do
            cluster_launch_store "$n" || return 1
            CLUSTER_STORE+=${CLUSTER_STORE:+,}az$n="s3://milepost/cluster?endpoint=${CLUSTER_S3[n]}&region=us-east-1"
        done
    else
        cluster_launch_store 0 || return 1
        CLUSTER_PIDS[0]=${CLUSTER_S3_PIDS[0]}
        CLUSTER_STORE="s3://milepost/cluster?endpoint=$CLUSTER_S3&region=us-east-1"
    fi
}

# The server of a zone, or the only one at 0.
cluster_launch_store() {
    local n=$1 waited=0
    local log=$CLUSTER_DIR/logs/s3-$n.log
    # shellcheck disable=SC2086 # the arguments are words
    "$CLUSTER_BIN/examples/s3_server" --listen "127.0.0.1:${CLUSTER_S3_PORTS[n]}" --access-key "$AWS_ACCESS_KEY_ID" \
        --secret-key "$AWS_SECRET_ACCESS_KEY" --bucket milepost ${CLUSTER_S3_ARGS:-} >"$log" 2>&1 &
    CLUSTER_S3_PIDS[n]=$!
    until grep -q '^listening on ' "$log"; do
        if ! kill -0 "${CLUSTER_S3_PIDS[n]}" 2>/dev/null || [ $((waited += 1)) -gt 100 ]; then
            echo "S3 server $n did not start" >&2
            return 1
        fi
        sleep 0.1
    done
    CLUSTER_S3[n]=$(sed -n 's/^listening on //p' "$log" | head -1)
}

cluster_kill_store() {
    kill -9 "${CLUSTER_S3_PIDS[$1]}"
    wait "${CLUSTER_S3_PIDS[$1]}" 2>/dev/null || true
}

cluster_launch_broker() {
    local n=$1
    "$CLUSTER_BIN/milepost" serve --broker-id $((${CLUSTER_FIRST_ID:-1} + n - 1)) --zone "az$n" --listen "${CLUSTER_KAFKA[n]}" \
        --internal-listen "${CLUSTER_INTERNAL[n]}" --seeds "$(IFS=,; echo "${CLUSTER_INTERNAL[*]}")" \
        --data-dir "$CLUSTER_DIR/broker-$n" --store "$CLUSTER_STORE" --metrics-listen "${CLUSTER_METRICS[n]}" \
        >>"$CLUSTER_DIR/logs/broker-$n.log" 2>&1 &
    CLUSTER_PIDS[n]=$!
}

cluster_kill_broker() {
    kill -9 "${CLUSTER_PIDS[$1]}"
    # The shell's word about a killed child says nothing new.
    wait "${CLUSTER_PIDS[$1]}" 2>/dev/null || true
}

cluster_wait_ready() {
    local n deadline=$((SECONDS + CLUSTER_READY_SECONDS_MAX)) seen
    for n in $(seq "$CLUSTER_BROKERS"); do
        while :; do
            seen=$(python3 "$CLUSTER_ROOT/examples/cluster_brokers.py" "${CLUSTER_KAFKA[n]}" 2>/dev/null | grep -c '^broker ')
            [ "$seen" -eq "$CLUSTER_BROKERS" ] && break
            if ! kill -0 "${CLUSTER_PIDS[n]}" 2>/dev/null; then
                echo "broker $n ended" >&2
                return 1
            elif [ "$SECONDS" -ge "$deadline" ]; then
                echo "broker $n sees $seen of $CLUSTER_BROKERS brokers after $CLUSTER_READY_SECONDS_MAX s" >&2
                return 1
            fi
            sleep 0.2
        done
    done
}

# Brokers first, each given ten seconds to go by itself; the store last, so that they can still write.
cluster_stop() {
    local pid waited=0 pids=("${CLUSTER_PIDS[@]:1}")
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    for pid in "${pids[@]}"; do
        while kill -0 "$pid" 2>/dev/null && [ $((waited += 1)) -le 100 ]; do sleep 0.1; done
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    for pid in "${CLUSTER_S3_PIDS[@]}"; do
        # One that is stopped would not hear of its end.
        kill -CONT "$pid" 2>/dev/null
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    CLUSTER_S3_PIDS=()
    CLUSTER_PIDS=()
    return 0
}

cluster_logs() {
    local log
    for log in "${CLUSTER_DIR:-/nowhere}"/logs/*.log; do
        [ -e "$log" ] || continue
        echo "--- the end of $log"
        tail -n 40 "$log"
    done
}
