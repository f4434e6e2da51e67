# shellcheck shell=bash
# The tools of settings: kafka-configs, kafka-features, kafka-client-metrics. To be sourced by tools.sh, whose words these
# use.

settings() { at ConfigCommand "$@"; }
# alters DESCRIBED SAID ARGUMENTS…: a change is told as done, and shown afterwards.
alters() {
    local shown=$1
    shift
    local entity=("$@")
    settings --alter "${CHANGE[@]}" "${entity[@]}" >"$TEST_DIR/altered" 2>&1 || { cat "$TEST_DIR/altered" && return 1; }
    shows 'Completed updating' "$TEST_DIR/altered" || return
    settings --describe "${entity[@]}" >"$TEST_DIR/described" 2>&1 && shows "$shown" "$TEST_DIR/described"
}
# denies WHY ARGUMENTS…: a change is refused in Kafka's words.
denies() {
    local why=$1
    shift
    settings --alter "${CHANGE[@]}" "$@" >"$TEST_DIR/denied" 2>&1
    shows "$why" "$TEST_DIR/denied"
}

configs_of_topics() {
    local topic=(--entity-type topics --entity-name tools.settings) CHANGE
    create tools.settings 1 || return
    CHANGE=(--add-config retention.ms=5000,cleanup.policy=compact)
    alters 'retention.ms=5000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=5000' "${topic[@]}" || return
    shows 'cleanup.policy=compact .*DEFAULT_CONFIG:log.cleanup.policy=delete' "$TEST_DIR/described" || return
    CHANGE=(--delete-config retention.ms)
    alters 'cleanup.policy=compact' "${topic[@]}" && ! grep retention.ms "$TEST_DIR/described" || return
    settings --describe --all "${topic[@]}" >"$TEST_DIR/described" || return
    same "$(grep -c sensitive= "$TEST_DIR/described")" 38 || return
    CHANGE=(--add-config retention.ms=-2)
    denies 'Invalid value -2 for configuration retention.ms: Value must be at least -1' "${topic[@]}" || return
    CHANGE=(--add-config no.such=1)
    denies 'Unknown topic config name: no.such' "${topic[@]}"
}

configs_of_brokers() {
    local one=(--entity-type brokers --entity-name 2) all=(--entity-type brokers --entity-default) CHANGE n
    CHANGE=(--add-config log.flush.interval.messages=5)
    alters 'log.flush.interval.messages=5 .*DYNAMIC_BROKER_CONFIG:log.flush.interval.messages=5' "${one[@]}" || return
    CHANGE=(--add-config log.retention.bytes=7777777)
    alters 'log.retention.bytes=7777777 .*DYNAMIC_DEFAULT_BROKER_CONFIG' "${all[@]}" || return
    # Every broker tells it of itself and of topics.
    for n in 1 2 3; do
        settings --describe --all --entity-type brokers --entity-name "$n" >"$TEST_DIR/described" || return
        shows ' log.retention.bytes=7777777 ' "$TEST_DIR/described" || return
    done
    create tools.inheriting 1 || return
    settings --describe --all --entity-type topics --entity-name tools.inheriting >"$TEST_DIR/described" || return
    shows 'retention.bytes=7777777 .*DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.bytes' "$TEST_DIR/described" || return
    CHANGE=(--add-config broker.id=9)
    denies 'Cannot update these configs dynamically: \[broker.id\]' "${one[@]}" || return
    CHANGE=(--delete-config log.retention.bytes)
    alters 'Default configs for brokers' "${all[@]}" && ! grep log.retention.bytes "$TEST_DIR/described" || return
    settings --describe --all "${one[@]}" >"$TEST_DIR/described" && shows 'broker.rack=az2 ' "$TEST_DIR/described"
}

configs_of_groups() {
    local group=(--entity-type groups --entity-name tools-settings) CHANGE
    CHANGE=(--add-config consumer.session.timeout.ms=50000)
    alters 'consumer.session.timeout.ms=50000 .*DYNAMIC_GROUP_CONFIG' "${group[@]}" || return
    CHANGE=(--add-config consumer.session.timeout.ms=10)
    denies 'consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive' "${group[@]}" || return
    CHANGE=(--add-config share.auto.offset.reset=earliest)
    alters 'share.auto.offset.reset=earliest' "${group[@]}" || return
    CHANGE=(--delete-config consumer.session.timeout.ms,share.auto.offset.reset)
    settings --alter "${CHANGE[@]}" "${group[@]}" >"$TEST_DIR/altered" && shows 'Completed updating' "$TEST_DIR/altered"
}

client_metrics() {
    local out=$TEST_DIR/subscriptions name=(--name tools-metrics)
    at ClientMetricsCommand --alter "${name[@]}" --metrics org.apache.kafka.producer. --interval 30000 \
        --match client_software_name=apache-kafka-java >"$out" 2>&1 || { cat "$out" && return 1; }
    at ClientMetricsCommand --list >"$out" && shows '^tools-metrics$' "$out" || return
    at ClientMetricsCommand --describe "${name[@]}" >"$out" && shows 'interval.ms=30000' "$out" || return
    settings --describe --entity-type client-metrics --entity-name tools-metrics >"$out" || return
    shows 'metrics=org.apache.kafka.producer.' "$out" && shows 'match=client_software_name=apache-kafka-java' "$out" || return
    at ClientMetricsCommand --alter "${name[@]}" --match client_name=x >"$out" 2>&1
    shows 'Illegal client matching pattern' "$out" || return
    at ClientMetricsCommand --delete "${name[@]}" >"$out" 2>&1 || { cat "$out" && return 1; }
    at ClientMetricsCommand --list >"$out" && ! grep tools-metrics "$out"
}

client_quotas() {
    local CHANGE begun
    CHANGE=(--add-config producer_byte_rate=100000,consumer_byte_rate=200000,request_percentage=50)
    alters "producer_byte_rate=100000" --entity-type users --entity-name alice --entity-type clients --entity-name app || return
    CHANGE=(--add-config connection_creation_rate=10)
    alters 'connection_creation_rate=10' --entity-type ips --entity-name 10.0.0.1 || return
    CHANGE=(--add-config controller_mutation_rate=5)
    alters 'controller_mutation_rate=5' --entity-type users --entity-default || return
    CHANGE=(--add-config no_such_rate=5)
    denies 'Unexpected config names: no_such_rate' --entity-type clients --entity-name app || return
    # A producer at 20,000 bytes a second has ten seconds' worth at once and then waits.
    CHANGE=(--add-config producer_byte_rate=20000)
    alters 'producer_byte_rate=20000' --entity-type clients --entity-name slow || return
    create tools.slow 1 || return
    begun=$SECONDS
    kafka ProducerPerformance --topic tools.slow --num-records 4000 --record-size 100 --throughput -1 \
        --bootstrap-server "$CLUSTER_BOOTSTRAP" --command-property client.id=slow >"$TEST_DIR/slow" || return
    shows '^4000 records sent' "$TEST_DIR/slow" || return
    [ $((SECONDS - begun)) -ge 5 ] || { echo "400,000 bytes took $((SECONDS - begun)) s" && return 1; }
    CHANGE=(--delete-config producer_byte_rate)
    settings --alter "${CHANGE[@]}" --entity-type clients --entity-name slow >/dev/null || return
    settings --describe --entity-type clients >"$TEST_DIR/described" && ! grep slow "$TEST_DIR/described" || return
    # Of users, it asks who has credentials as well.
    settings --describe --entity-type users >"$TEST_DIR/described" 2>&1 || { cat "$TEST_DIR/described" && return 1; }
    shows 'controller_mutation_rate=5' "$TEST_DIR/described"
}

features() {
    local out=$TEST_DIR/features
    # This tool takes the cluster before the command.
    levels() { kafka FeatureCommand --bootstrap-server "$CLUSTER_BOOTSTRAP" "$@"; }
    levels describe >"$out" && shows '^Feature: metadata.version.*FinalizedVersionLevel: 4\.1-IV1' "$out" || return
    levels upgrade --feature metadata.version=27 >"$out" 2>&1 || { cat "$out" && return 1; }
    shows 'metadata.version was upgraded to 27' "$out" || return
    refused levels upgrade --feature no.such.version=1 || return
    refused levels downgrade --feature metadata.version=20
}

SETTINGS_TOOLS=(configs_of_topics configs_of_brokers configs_of_groups client_metrics client_quotas features)
