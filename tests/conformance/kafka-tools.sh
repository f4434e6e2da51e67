#!/usr/bin/env bash
# The programs that Apache Kafka's own system tests are made of, and their oracle: what was acknowledged is read, once;
# what was copied in transactions is the input, exactly once. Also while a broker is killed every 20 s.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/java.sh"

compatibility() {
    # shellcheck disable=SC2046
    tool 120 ClientCompatibilityTest $(at) --topic "compatibility-$RUN" --num-cluster-nodes 3 --offsets-for-times-supported true \
        --cluster-id-supported true --expect-record-too-large-exception false --create-topics-supported true \
        --describe-acls-supported true \
        --describe-configs-supported true --idempotent-producer-supported true
}

# Writes COUNT values at PER_SECOND, and reads with a group until all that was acknowledged is there: the producer does not try
# again, so some of what it has on its way to a broker that is killed is never written.
produced_and_consumed() { # NAME COUNT PER_SECOND BOUNCE|quiet [CONSUMER-ARGUMENT…]
    local name=$1-$RUN count=$2 per_second=$3 how=$4 writer reader seconds=$(($2 / $3 + 120))
    local wrote=$CONFORMANCE_LOGS/$1.produced read=$CONFORMANCE_LOGS/$1.consumed
    shift 4
    topic "$name" 3 || return
    # shellcheck disable=SC2046
    tool "$seconds" VerifiableProducer $(at) --topic "$name" --max-messages "$count" --throughput "$per_second" --acks -1 \
        --value-prefix 1 >"$wrote" &
    writer=$!
    # shellcheck disable=SC2046
    tool "$seconds" VerifiableConsumer $(at) --topic "$name" --group-id "$name" --verbose "$@" >"$read" &
    reader=$!
    [ "$how" = quiet ] || bounce || return
    wait "$writer" || { echo "the producer ended with $?" && kill "$reader" && return 1; }
    local until=$((SECONDS + 60))
    until [ "$(grep -c '"record_data"' "$read")" -ge "$(grep -c '"producer_send_success"' "$wrote")" ]; do
        kill -0 "$reader" 2>/dev/null && [ "$SECONDS" -lt "$until" ] || break
        sleep 0.5
    done
    sleep 2 # for what comes twice
    # shellcheck disable=SC2046 # several
    kill $(descendants "$reader") 2>/dev/null
    wait "$reader"
    python3 "$CONFORMANCE_DIR/oracle.py" consumed "$wrote" "$read"
}

# Until everything is copied, however often it ends by an error: as Kafka's test does, it is started again.
copier() { # NAME SIZE [ARGUMENT…]
    local name=$1 size=$2
    shift 2
    for _ in $(seq 10); do
        tool $((BOUNCE_SECONDS + 900)) TransactionalMessageCopier --broker-list "$CLUSTER_BOOTSTRAP" --input-topic "$name-in" \
            --input-partition 0 --output-topic "$name-out" --transactional-id "$name" --consumer-group "$name" \
            --transaction-size "$size" --transaction-timeout 10000 --enable-random-aborts "$@" && return
        echo "ended by an error"
    done
    return 1
}

# COUNT records in transactions of SIZE.
copied() { # NAME COUNT SIZE BOUNCE|quiet [COPIER-ARGUMENT…]
    local name=$1-$RUN count=$2 size=$3 how=$4 copier code=0 read=$CONFORMANCE_LOGS/$1.out
    shift 4
    topic "$name-in" 1 && topic "$name-out" 1 || return
    # shellcheck disable=SC2046
    tool 300 VerifiableProducer $(at) --topic "$name-in" --max-messages "$count" --throughput -1 --acks -1 >"$read.in" || return
    copier "$name" "$size" "$@" >"$read.copier" &
    copier=$!
    if [ "$how" = bounce ]; then
        bounce || code=1
        kill -0 "$copier" 2>/dev/null || echo "everything was copied before the last was killed"
    fi
    wait "$copier" && [ "$code" -eq 0 ] || { tail -n 3 "$read.copier" && return 1; }
    # One more than there should be: a duplicate would come before the time is over.
    committed "$name-out" $((count + 1)) >"$read"
    # shellcheck disable=SC2046
    code=$(tool 60 GetOffsetShell $(at) --topic "$name-out") &&
        python3 "$CONFORMANCE_DIR/oracle.py" copied "$read.in" "$read" "$read.copier" "${code##*:}"
}

install_java || fail "Kafka's tools"
quick client_compatibility_test verifiable_producer_and_consumer transactional_copier
begin kafka-tools 1 0
try client_compatibility_test compatibility
try verifiable_producer_and_consumer produced_and_consumed plain 10000 2000 quiet
try verifiable_static_member produced_and_consumed static 10000 2000 quiet --group-instance-id one
try verifiable_consumer_protocol produced_and_consumed protocol 10000 2000 quiet --group-protocol CONSUMER
try transactional_copier copied copier 5000 100 quiet
try transactional_copier_of_a_group copied group-copier 5000 100 quiet --group-mode --use-group-metadata
try verifiable_producer_and_consumer_while_brokers_are_killed \
    produced_and_consumed bounced $((BOUNCE_SECONDS * 500)) 500 bounce
# Small transactions, so that there are some until the last broker is killed.
try transactional_copier_while_brokers_are_killed copied bounced-copier $((BOUNCE_SECONDS * 700)) 20 bounce --group-mode --use-group-metadata
end
