#!/usr/bin/env bash
# Apache Kafka's command-line tools, and Milepost's own, against four brokers in four zones: what each prints is checked,
# not only how it ends.
#
#   tests/tools.sh [TOOL…]     all by default, in the order at the end of this file; PROFILE=dev TARGET=milepost
#
# One function per tool, named as the tool is without "kafka-".
set -u
. "$(dirname "${BASH_SOURCE[0]}")/target.sh"
. "$(dirname "${BASH_SOURCE[0]}")/clients/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/clients/install.sh"
. "$(dirname "${BASH_SOURCE[0]}")/tools_settings.sh"
BROKERS=4 RECORDS=1000

# kafka CLASS ARGUMENTS…: a tool by its class. It starts twice as fast with the first compiler alone.
kafka() {
    local class=$1
    shift
    timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=ERROR \
        -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" "org.apache.kafka.tools.$class" "$@"
}
at() { kafka "$@" --bootstrap-server "$CLUSTER_BOOTSTRAP"; }
# shows PATTERN FILE: the pattern is in the output.
shows() { grep -Eq -- "$1" "$2" || { echo "not shown: $1" && cat "$2" && return 1; }; }
# refused COMMAND…: it fails; its output is in $TEST_DIR/refused.
refused() { ! "$@" >"$TEST_DIR/refused" 2>&1 || { echo "not refused: $*" && return 1; }; }
create() { at TopicCommand --create --topic "$1" --partitions "$2" --replication-factor "${3:-3}" >/dev/null; }
fill() { # TOPIC [RECORDS]
    kafka ProducerPerformance --topic "$1" --num-records "${2:-$RECORDS}" --record-size 100 --throughput -1 \
        --bootstrap-server "$CLUSTER_BOOTSTRAP"
}
# Sum of the third field of topic:partition:offset lines.
total() { awk -F: '{ sum += $3 } END { print sum + 0 }'; }
json() { python3 -c "import json,sys; d=json.load(sys.stdin); print($1)"; }

topics() {
    local out=$TEST_DIR/topics
    at TopicCommand --create --topic tools.a --partitions 3 --replication-factor 3 --config retention.ms=3600000 >"$out" 2>&1 || return
    shows 'Created topic tools.a' "$out" || return
    refused at TopicCommand --create --topic tools.a && shows 'exists' "$TEST_DIR/refused" || return
    at TopicCommand --create --topic tools.a --if-not-exists >/dev/null || return
    refused at TopicCommand --create --topic tools.wide --replication-factor 9 && shows 'InvalidReplicationFactor' "$TEST_DIR/refused" || return
    at TopicCommand --list >"$out" && shows '^tools.a$' "$out" || return
    at TopicCommand --list --exclude-internal >"$out" && shows '^tools.a$' "$out" || return
    at TopicCommand --describe --topic tools.a >"$out" || return
    shows 'PartitionCount: 3.*ReplicationFactor: 3.*retention.ms=3600000' "$out" || return
    same "$(grep -c 'Leader: [1-4].*Replicas: [1-4],[1-4],[1-4].*Isr: [1-4],[1-4],[1-4]' "$out")" 3 || return
    local id
    id=$(grep -o 'TopicId: [^[:space:]]*' "$out" | cut -d' ' -f2)
    at TopicCommand --describe --topic-id "$id" >"$out" && shows 'Topic: tools.a' "$out" || return
    at TopicCommand --describe --topics-with-overrides >"$out" && shows 'Topic: tools.a' "$out" || return
    local state
    for state in under-replicated-partitions unavailable-partitions under-min-isr-partitions; do
        at TopicCommand --describe "--$state" >"$out" || return
        same "$(grep -c Partition: "$out")" 0 || return
    done
    at TopicCommand --describe --at-min-isr-partitions >"$out" || return
    # Pages of the answer: the partitions of one topic in several.
    at TopicCommand --alter --topic tools.a --partitions 7 || return
    at TopicCommand --describe --topic tools.a --partition-size-limit-per-response 2 >"$out" || return
    same "$(grep -c 'Partition: [0-6]' "$out")" 7 || return
    refused at TopicCommand --alter --topic tools.a --partitions 2 || return
    at TopicCommand --delete --topic tools.a && until_true gone tools.a || return
    refused at TopicCommand --delete --topic tools.a && shows 'does not exist' "$TEST_DIR/refused"
}
gone() { ! at TopicCommand --list | grep -qx "$1"; }

producer_perf() {
    create tools.perf 6 || return
    fill tools.perf >"$TEST_DIR/perf" && shows "^$RECORDS records sent" "$TEST_DIR/perf" || return
    same "$(at GetOffsetShell --topic tools.perf | total)" "$RECORDS"
}

consumer_perf() {
    create tools.read 3 && fill tools.read >/dev/null || return
    kafka ConsumerPerformance --bootstrap-server "$CLUSTER_BOOTSTRAP" --topic tools.read --num-records "$RECORDS" \
        --timeout 30000 >"$TEST_DIR/perf" 2>&1 || { cat "$TEST_DIR/perf" && return 1; }
    # The fifth column: records that were read.
    same "$(tail -n 1 "$TEST_DIR/perf" | cut -d, -f5 | tr -d ' ')" "$RECORDS"
}

verifiable_producer() {
    create tools.verified 3 || return
    kafka VerifiableProducer --bootstrap-server "$CLUSTER_BOOTSTRAP" --topic tools.verified --max-messages "$RECORDS" \
        --throughput -1 --acks -1 >"$TEST_DIR/produced" || return
    same "$(grep -c producer_send_success "$TEST_DIR/produced")" "$RECORDS" && ! grep producer_send_error "$TEST_DIR/produced"
}

verifiable_consumer() {
    create tools.grouped 3 && fill tools.grouped >/dev/null || return
    kafka VerifiableConsumer --bootstrap-server "$CLUSTER_BOOTSTRAP" --topic tools.grouped --group-id tools-verified \
        --max-messages "$RECORDS" --reset-policy earliest >"$TEST_DIR/consumed" || return
    shows '"name":"records_consumed"' "$TEST_DIR/consumed" || return
    ! grep '"name":"offsets_committed".*"success":false' "$TEST_DIR/consumed"
}

get_offsets() {
    create tools.offsets 2 && fill tools.offsets >/dev/null || return
    same "$(at GetOffsetShell --topic tools.offsets --time latest | total)" "$RECORDS" || return
    same "$(at GetOffsetShell --topic tools.offsets --time -1 | total)" "$RECORDS" || return
    same "$(at GetOffsetShell --topic tools.offsets --time earliest | total)" 0 || return
    same "$(at GetOffsetShell --topic tools.offsets --time earliest-local | total)" 0 || return
    same "$(at GetOffsetShell --topic tools.offsets --time latest-tiered | cut -d: -f3 | tr -d '\n')" "" || return
    # The largest timestamp is within the log.
    [ "$(at GetOffsetShell --topic tools.offsets --time max-timestamp | total)" -lt "$RECORDS" ] || return
    same "$(at GetOffsetShell --topic tools.offsets --time 1000 | total)" 0 || return
    same "$(at GetOffsetShell --topic-partitions tools.offsets:1 | cut -d: -f1,2)" tools.offsets:1 || return
    same "$(at GetOffsetShell --topic tools.offsets --partitions 0 | cut -d: -f1,2)" tools.offsets:0 || return
    same "$(at GetOffsetShell --exclude-internal-topics | grep -c '^__')" 0
}

delete_records() {
    local out=$TEST_DIR/deleted request=$TEST_DIR/records.json n
    # A producer may well put all of its records into one of several partitions.
    create tools.deleted 1 && fill tools.deleted >/dev/null && create tools.emptied 1 && fill tools.emptied >/dev/null || return
    cat >"$request" <<<'{"version":1,"partitions":[{"topic":"tools.deleted","partition":0,"offset":7},{"topic":"tools.emptied","partition":0,"offset":-1}]}'
    at DeleteRecordsCommand --offset-json-file "$request" >"$out" 2>&1 || { cat "$out" && return 1; }
    shows 'tools.deleted-0.*low_watermark: 7$' "$out" && shows 'tools.emptied-0.*low_watermark: [1-9]' "$out" || return
    # The start is the same at every broker.
    for n in 1 2 3 4; do
        same "$(kafka GetOffsetShell --bootstrap-server "${CLUSTER_KAFKA[n]}" --topic-partitions tools.deleted:0 --time earliest)" \
            tools.deleted:0:7 || return
    done
    same "$(at GetOffsetShell --topic-partitions tools.emptied:0 --time earliest)" \
        "$(at GetOffsetShell --topic-partitions tools.emptied:0 --time latest)" || return
    kafka consumer.ConsoleConsumer --bootstrap-server "$CLUSTER_BOOTSTRAP" --topic tools.deleted --partition 0 \
        --offset earliest --max-messages 1 --timeout-ms 30000 --formatter-property print.offset=true >"$out" 2>/dev/null || return
    shows '^Offset:7' "$out" || return
    cat >"$request" <<<'{"version":1,"partitions":[{"topic":"tools.deleted","partition":0,"offset":1000000}]}'
    at DeleteRecordsCommand --offset-json-file "$request" >"$out" 2>&1
    shows 'OffsetOutOfRange' "$out"
}

log_dirs() {
    local out=$TEST_DIR/dirs
    create tools.dirs 2 && fill tools.dirs >/dev/null || return
    at LogDirsCommand --describe --topic-list tools.dirs | grep '^{' >"$out" || return
    same "$(json 'len(d["brokers"])' <"$out")" "$BROKERS" || return
    same "$(json '{len(b["logDirs"]) for b in d["brokers"]}' <"$out")" '{1}' || return
    # Three replicas of each partition, each with the bytes that the object store has.
    same "$(json 'sum(len(l["partitions"]) for b in d["brokers"] for l in b["logDirs"])' <"$out")" 6 || return
    same "$(json 'min(sum(p["size"] for l in b["logDirs"] for p in l["partitions"]) for b in d["brokers"] if b["logDirs"][0]["partitions"]) > 0' <"$out")" True
}

leader_election() {
    local out=$TEST_DIR/election
    create tools.elected 2 || return
    at LeaderElectionCommand --election-type preferred --topic tools.elected --partition 0 >"$out" || { cat "$out" && return 1; }
    shows 'tools.elected-0' "$out" || return
    at LeaderElectionCommand --election-type preferred --all-topic-partitions >"$out" || { cat "$out" && return 1; }
    at LeaderElectionCommand --election-type unclean --topic tools.elected --partition 1 >"$out" || { cat "$out" && return 1; }
    shows 'Valid replica already elected for partitions tools.elected-1' "$out" || return
    refused at LeaderElectionCommand --election-type preferred --topic tools.none --partition 0 &&
        shows 'tools.none-0' "$TEST_DIR/refused"
}

# "[1,2,3]" of a partition, as it is described.
replicas() { at TopicCommand --describe --topic "$1" | grep "Partition: $2[^0-9]" | sed 's/.*Replicas: \([0-9,]*\).*/[\1]/'; }

reassign_partitions() {
    local out=$TEST_DIR/reassigned plan=$TEST_DIR/plan.json before spare
    # Both in one shard.
    create tools.moved 2 && fill tools.moved >/dev/null || return
    cat >"$TEST_DIR/topics.json" <<<'{"version":1,"topics":[{"topic":"tools.moved"}]}'
    at reassign.ReassignPartitionsCommand --generate --topics-to-move-json-file "$TEST_DIR/topics.json" \
        --broker-list 1,2,3,4 >"$out" || { cat "$out" && return 1; }
    shows 'Current partition replica assignment' "$out" && shows 'Proposed partition reassignment' "$out" || return
    before=$(replicas tools.moved 0)
    # What it is already is done at once.
    one() { cat >"$plan" <<<"{\"version\":1,\"partitions\":[{\"topic\":\"tools.moved\",\"partition\":0,\"replicas\":$1,\"log_dirs\":[\"any\",\"any\",\"any\"]}]}"; }
    one "$before"
    at reassign.ReassignPartitionsCommand --execute --reassignment-json-file "$plan" >"$out" || { cat "$out" && return 1; }
    shows 'Successfully started partition reassignment for tools.moved-0' "$out" || return
    verified || return
    # One partition of a shard that carries more cannot move alone, and is told why.
    spare=$(python3 -c "b=$before; s=({1,2,3,4}-set(b)).pop(); print([s]+b[1:])")
    one "${spare// /}"
    refused at reassign.ReassignPartitionsCommand --execute --reassignment-json-file "$plan" || return
    shows 'move together' "$TEST_DIR/refused" || return
    # All partitions of the shard, alike: the shard moves, and its records are there.
    "$CLUSTER_BIN/milepost" topic tools.moved --bootstrap "$CLUSTER_BOOTSTRAP" --json >"$out" || return
    shard_plan "$(json 'd["partitions"][0]["shard"]' <"$out")" "${spare// /}" >"$plan" || return
    at reassign.ReassignPartitionsCommand --execute --reassignment-json-file "$plan" >"$out" || { cat "$out" && return 1; }
    shows 'Successfully started partition reassignment' "$out" || return
    until_true verified || { verified; return 1; }
    same "$(replicas tools.moved 0)" "${spare// /}" || return
    at reassign.ReassignPartitionsCommand --list >"$out" && shows 'No partition reassignments found' "$out" || return
    same "$(at GetOffsetShell --topic tools.moved | total)" "$RECORDS" || return
    kafka consumer.ConsoleConsumer --bootstrap-server "$CLUSTER_BOOTSTRAP" --topic tools.moved --from-beginning \
        --max-messages "$RECORDS" --timeout-ms 60000 >"$out" 2>"$TEST_DIR/read.err"
    same "$(grep -c '^[A-Z]*$' "$out")" "$RECORDS" || { tail -n 5 "$out" "$TEST_DIR/read.err" && return 1; }
    # Nothing is left to cancel.
    at reassign.ReassignPartitionsCommand --cancel --preserve-throttles --reassignment-json-file "$plan" >"$out" || { cat "$out" && return 1; }
    shows 'None of the specified partition reassignments are active' "$out"
}
verified() {
    at reassign.ReassignPartitionsCommand --verify --preserve-throttles --reassignment-json-file "$TEST_DIR/plan.json" >"$TEST_DIR/verified" &&
        shows 'is completed' "$TEST_DIR/verified" && ! grep -E 'in progress|rather than' "$TEST_DIR/verified"
}
# shard_plan SHARD REPLICAS: every partition of the shard, alike.
shard_plan() {
    local topic
    for topic in $(at TopicCommand --list); do
        "$CLUSTER_BIN/milepost" topic "$topic" --bootstrap "$CLUSTER_BOOTSTRAP" --json || return
    done | python3 -c "
import json, sys
text, at, partitions = sys.stdin.read(), 0, []
while text[at:].strip():
    topic, at = json.JSONDecoder().raw_decode(text, at)
    at += len(text[at:]) - len(text[at:].lstrip())
    for p in topic['partitions']:
        if p['shard'] == $1:
            partitions.append({'topic': topic['topic'], 'partition': p['partition'], 'replicas': $2})
print(json.dumps({'version': 1, 'partitions': partitions}))"
}

metadata_quorum() {
    local out=$TEST_DIR/quorum n
    until_true three_voters || { cat "$TEST_DIR/quorum" && return 1; }
    for n in 1 4; do
        kafka MetadataQuorumCommand --bootstrap-server "${CLUSTER_KAFKA[n]}" describe --status >"$out" || return
        shows '^ClusterId: ' "$out" && shows '^LeaderId: +[1-4]$' "$out" && shows '^LeaderEpoch: +[1-9]' "$out" || return
        shows '^MaxFollowerLag: ' "$out" && shows '"endpoints": \["INTERNAL://' "$out" || return
    done
    kafka MetadataQuorumCommand --bootstrap-server "$CLUSTER_BOOTSTRAP" describe --replication --human-readable >"$out" || return
    same "$(grep -cw Leader "$out")" 1 && same "$(grep -cw Follower "$out")" 2 && same "$(grep -cw Observer "$out")" 1 || return
    local voter directory
    voter=$(awk '/Follower/ { print $1; exit }' "$out") directory=$(awk '/Follower/ { print $2; exit }' "$out")
    refused kafka MetadataQuorumCommand --bootstrap-server "$CLUSTER_BOOTSTRAP" remove-controller --controller-id "$voter" \
        --controller-directory-id "$directory" && shows 'not chosen by hand' "$TEST_DIR/refused"
}
three_voters() {
    kafka MetadataQuorumCommand --bootstrap-server "$CLUSTER_BOOTSTRAP" describe --replication >"$TEST_DIR/quorum" &&
        [ "$(grep -c Follower "$TEST_DIR/quorum")" -eq 2 ]
}

broker_api_versions() {
    local out=$TEST_DIR/versions
    at BrokerApiVersionsCommand >"$out" || return
    same "$(grep -c 'id: [1-4] rack: az[1-4].* -> ($' "$out")" "$BROKERS" || { head -n 5 "$out" && return 1; }
    shows 'Produce\(0\): 0 to' "$out" && shows 'DescribeQuorum\(55\): 0 to' "$out" && shows 'ElectLeaders\(43\): 0 to' "$out"
}

# The last: it removes a broker.
cluster() {
    local out=$TEST_DIR/cluster
    at ClusterTool cluster-id >"$out" && shows '^Cluster ID: [^ ]+$' "$out" || return
    at ClusterTool list-endpoints >"$out" && same "$(grep -c ' unfenced ' "$out")" "$BROKERS" || { cat "$out" && return 1; }
    refused at ClusterTool unregister --id 4 && shows 'alive' "$TEST_DIR/refused" || return
    refused at ClusterTool unregister --id 77 || return
    cluster_kill_broker 4
    until_true away 4 || return
    at ClusterTool list-endpoints --include-fenced-brokers >"$out" && shows '^4 .* fenced ' "$out" || { cat "$out" && return 1; }
    at ClusterTool unregister --id 4 >"$out" && shows 'Broker 4 is no longer registered' "$out" || { cat "$out" && return 1; }
    at ClusterTool list-endpoints --include-fenced-brokers >"$out" && same "$(grep -c '^4 ' "$out")" 0
}
away() { "$CLUSTER_BIN/milepost" cluster --bootstrap "$CLUSTER_BOOTSTRAP" | grep -Eq "^ *$1 .* away "; }

milepost_cluster() {
    local out=$TEST_DIR/survey
    "$CLUSTER_BIN/milepost" cluster --bootstrap "$CLUSTER_BOOTSTRAP" >"$out" || return
    shows '^cluster ' "$out" && shows '^ *1 +az1 .* alive ' "$out" && shows '^root ' "$out" && shows '^az2 +1 of 1 ' "$out" || return
    "$CLUSTER_BIN/milepost" cluster --bootstrap "${CLUSTER_KAFKA[2]}" --json >"$out" || return
    same "$(json '[b["broker"] for b in d["brokers"] if b["alive"] and b["answers"]]' <"$out")" '[1, 2, 3, 4]' || return
    same "$(json 'all(s["leader"] for s in d["shards"]) and len(d["shards"]) > 3' <"$out")" True
}

milepost_topic() {
    local out=$TEST_DIR/survey
    create tools.shown 2 && fill tools.shown >/dev/null || return
    "$CLUSTER_BIN/milepost" topic tools.shown --bootstrap "$CLUSTER_BOOTSTRAP" >"$out" || return
    shows '^topic tools.shown ' "$out" && shows '^PARTITION +SHARD +LEADER' "$out" && shows '^az3 ' "$out" || return
    "$CLUSTER_BIN/milepost" topic tools.shown --bootstrap "$CLUSTER_BOOTSTRAP" --json >"$out" || return
    same "$(json 'sum(p["high_watermark"] for p in d["partitions"])' <"$out")" "$RECORDS" || return
    same "$(json 'd["bytes"] > 100 * 1000 and d["pointers"] > 0 and all(p["objects"] > 0 for p in d["partitions"] if p["pointers"])' <"$out")" True || return
    refused "$CLUSTER_BIN/milepost" topic tools.none --bootstrap "$CLUSTER_BOOTSTRAP"
}

install_java || fail "installing Kafka's tools"
cluster_start "$TEST_DIR" "$BROKERS" || fail "starting the cluster"
TOOLS=(topics producer_perf consumer_perf verifiable_producer verifiable_consumer get_offsets delete_records log_dirs
    leader_election metadata_quorum broker_api_versions milepost_cluster milepost_topic "${SETTINGS_TOOLS[@]}"
    reassign_partitions cluster)
for tool in "${@:-${TOOLS[@]}}"; do claim "$tool" "$tool"; done
tally tools || fail "a tool"
audit || fail "the audit"
