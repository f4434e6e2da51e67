# shellcheck shell=bash
# Apache Kafka behind the same words as examples/cluster.sh, so that what is run against Milepost can
# be proved against Kafka first, and compared with it. To be sourced by bash.
#
# The brokers are Kafka's own server from Maven Central, each broker and KRaft controller in one.
# No zones: CLUSTER_ZONES stays empty. KAFKA_PROPERTIES are more lines for the brokers' settings.

. "$(dirname "${BASH_SOURCE[0]}")/../../examples/cluster.sh"

KAFKA_HEAP=${KAFKA_HEAP:-512m}

cluster_build() {
    local pom=$CLUSTER_ROOT/tests/clients/java/pom.xml
    KAFKA_CLASSPATH=$CLUSTER_TARGET/clients/kafka-server.classpath
    [ "$KAFKA_CLASSPATH" -nt "$pom" ] && return 0
    mkdir -p "$(dirname "$KAFKA_CLASSPATH")"
    mvn -q -B -Dstyle.color=never -f "$pom" -Pserver dependency:build-classpath -Dmdep.outputFile="$KAFKA_CLASSPATH"
}

cluster_start_store() {
    CLUSTER_ZONES=
    local n voters=()
    for n in $(seq "$CLUSTER_BROKERS"); do voters+=("$((${CLUSTER_FIRST_ID:-1} + n - 1))@${CLUSTER_INTERNAL[n]}"); done
    local replication=$((CLUSTER_BROKERS < 3 ? CLUSTER_BROKERS : 3))
    for n in $(seq "$CLUSTER_BROKERS"); do
        mkdir -p "$CLUSTER_DIR/broker-$n"
        cat >"$CLUSTER_DIR/broker-$n.properties" <<EOF
node.id=$((${CLUSTER_FIRST_ID:-1} + n - 1))
process.roles=broker,controller
listeners=PLAINTEXT://${CLUSTER_KAFKA[n]},CONTROLLER://${CLUSTER_INTERNAL[n]}
controller.listener.names=CONTROLLER
controller.quorum.voters=$(IFS=,; echo "${voters[*]}")
log.dirs=$CLUSTER_DIR/broker-$n
broker.rack=az$n
default.replication.factor=$replication
min.insync.replicas=$((replication > 1 ? 2 : 1))
offsets.topic.replication.factor=$replication
transaction.state.log.replication.factor=$replication
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
${KAFKA_PROPERTIES:-}
EOF
        (kafka_java kafka.tools.StorageTool format -t bWlsZXBvc3Qta2Fma2EtMQ -c "$CLUSTER_DIR/broker-$n.properties" \
            --ignore-formatted) >>"$CLUSTER_DIR/logs/format.log" 2>&1 || return 1
    done
}

cluster_launch_broker() {
    kafka_java kafka.Kafka "$CLUSTER_DIR/broker-$1.properties" >>"$CLUSTER_DIR/logs/broker-$1.log" 2>&1 &
    CLUSTER_PIDS[$1]=$!
}

# Becomes Java, so that the process id which the caller of a subshell takes is Java's own.
kafka_java() {
    exec java "-Xmx$KAFKA_HEAP" -Dlog4j2.level=INFO -cp "$(cat "$KAFKA_CLASSPATH")" "$@"
}
