#!/usr/bin/env bash
# Apache Kafka's own tools: the Java client, and the oracle of its system tests.
#
#   run.sh BOOTSTRAP         BROKERS=N is the number of brokers
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../install.sh"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BOOTSTRAP=$1 RUN=$(date +%s%N)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

install_java || exit 1
# The short-lived tools start twice as fast with the first compiler alone.
tool() {
    local name=$1
    shift
    timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=ERROR \
        -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" "org.apache.kafka.tools.$name" "$@" --bootstrap-server "$BOOTSTRAP"
}
topic() { tool TopicCommand "$@"; }
# Its options come before its command.
transactions_command() {
    timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=ERROR \
        -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" org.apache.kafka.tools.TransactionsCommand --bootstrap-server "$BOOTSTRAP" "$@"
}
# Every record of a partition as one line; ends by itself when COUNT are read.
consume() { # TOPIC PARTITION OFFSET COUNT
    tool consumer.ConsoleConsumer --topic "$1" --partition "$2" --offset "$3" --max-messages "$4" --timeout-ms 30000 \
        --formatter-property print.offset=true 2>"$WORK/consumer.err" || { cat "$WORK/consumer.err" && return 1; }
}

creates() {
    topic --create --topic "java-$RUN" --partitions 3 --config retention.ms=3600000 || return
    topic --describe --topic "java-$RUN" >"$WORK/described" || return
    grep -q 'PartitionCount: *3' "$WORK/described" && grep -q 'retention.ms=3600000' "$WORK/described" &&
        same "$(grep -c 'Leader: [0-9]' "$WORK/described")" 3 || { cat "$WORK/described" && return 1; }
}

lists() { topic --list | grep -qx "java-$RUN"; }

grows() {
    topic --create --topic "java-grown-$RUN" --partitions 1 && topic --alter --topic "java-grown-$RUN" --partitions 4 &&
        topic --describe --topic "java-grown-$RUN" | grep -q 'PartitionCount: *4'
}

# What VerifiableProducer says was acknowledged, against what ConsoleConsumer finds at each offset.
verifiable() {
    tool VerifiableProducer --topic "java-$RUN" --max-messages 20000 --throughput -1 --acks -1 >"$WORK/produced" || return
    same "$(grep -c producer_send_success "$WORK/produced")" 20000 && ! grep producer_send_error "$WORK/produced" || return
    python3 "$HERE/acked.py" "$WORK/produced" >"$WORK/acked" || return
    local partition count
    for partition in 0 1 2; do
        grep -P "^$partition\t" "$WORK/acked" | cut -f2- >"$WORK/acked.$partition"
        count=$(wc -l <"$WORK/acked.$partition")
        consume "java-$RUN" "$partition" earliest "$count" | sed 's/^Offset://' >"$WORK/consumed.$partition"
        diff "$WORK/acked.$partition" "$WORK/consumed.$partition" | head -n 5
        cmp -s "$WORK/acked.$partition" "$WORK/consumed.$partition" || return
    done
}

offsets() {
    local shown end=0 n
    shown=$(tool GetOffsetShell --topic "java-$RUN" --time latest) || return
    for n in $(cut -d: -f3 <<<"$shown"); do end=$((end + n)); done
    same "$end" 20000 &&
        same "$(tool GetOffsetShell --topic "java-$RUN" --time earliest | cut -d: -f3 | sort -u)" 0 &&
        same "$(tool GetOffsetShell --topic "java-$RUN" --time 1000 | cut -d: -f3 | sort -u)" 0
}

# The producer chooses partitions at random, batch by batch, and may leave one empty.
fullest() { tool GetOffsetShell --topic "java-$RUN" | sort -t: -k3n | tail -n 1 | cut -d: -f2; }

from_the_middle() {
    same "$(consume "java-$RUN" "$(fullest)" 50 3 | grep -o '^Offset:[0-9]*' | tr '\n' ' ')" 'Offset:50 Offset:51 Offset:52 '
}

performance() {
    topic --create --topic "java-perf-$RUN" --partitions 6 || return
    local codec
    for codec in none lz4 zstd gzip snappy; do
        tool ProducerPerformance --topic "java-perf-$RUN" --num-records 20000 --record-size 1000 --throughput -1 \
            --command-property "compression.type=$codec" >"$WORK/perf" || { cat "$WORK/perf" && return 1; }
        grep -q '^20000 records sent' "$WORK/perf" || { cat "$WORK/perf" && return 1; }
    done
    local end=0 n
    for n in $(tool GetOffsetShell --topic "java-perf-$RUN" | cut -d: -f3); do end=$((end + n)); done
    same "$end" 100000
}

# The test makes "newtopic" itself, and is not content to find it there.
compatibility() {
    topic --delete --if-exists --topic newtopic && until_true gone newtopic || return
    tool ClientCompatibilityTest --topic "java-compat-$RUN" --num-cluster-nodes "${BROKERS:-1}" \
        --offsets-for-times-supported true --cluster-id-supported true --expect-record-too-large-exception false \
        --create-topics-supported true --describe-acls-supported true --describe-configs-supported true \
        --idempotent-producer-supported true
}

groups() { tool consumer.group.ConsumerGroupCommand "$@"; }
# What a group has committed of a topic, partition by partition.
committed() { groups --describe --group "$1" --offsets 2>"$WORK/groups.err" | awk -v t="$2" '$2 == t {print $3, $4}' | sort; }

# Every record once, and the next member of the group begins where the last one committed.
verifiable_group() {
    local group=java-verifiable-$RUN
    tool VerifiableConsumer --topic "java-$RUN" --group-id "$group" --max-messages 12000 --reset-policy earliest \
        >"$WORK/first" || { tail -n 3 "$WORK/first" && return 1; }
    tool VerifiableConsumer --topic "java-$RUN" --group-id "$group" --max-messages 8000 --reset-policy earliest \
        >"$WORK/second" || { tail -n 3 "$WORK/second" && return 1; }
    same "$(grep -c '"name":"offsets_committed".*"success":false' "$WORK/first" "$WORK/second" | cut -d: -f2 | sort -u)" 0 || return
    local read=0 n
    for n in $(cat "$WORK/first" "$WORK/second" | grep '"name":"records_consumed"' | grep -o '"count":[0-9]*,' | tr -dc '0-9\n'); do
        read=$((read + n))
    done
    [ "$read" -ge 20000 ] || { echo "$read records" && return 1; }
    local sum=0
    for n in $(committed "$group" "java-$RUN" | cut -d' ' -f2); do sum=$((sum + n)); done
    same "$sum" 20000
}

console_group() {
    local group=java-console-$RUN
    tool consumer.ConsoleConsumer --topic "java-$RUN" --group "$group" --from-beginning --max-messages 20000 \
        --timeout-ms 30000 >"$WORK/console" 2>"$WORK/consumer.err" || { cat "$WORK/consumer.err" && return 1; }
    same "$(sort "$WORK/console" | uniq | wc -l)" 20000
}

describes_groups() {
    local group=java-console-$RUN
    groups --list >"$WORK/listed" && grep -qx "$group" "$WORK/listed" || { cat "$WORK/listed" && return 1; }
    until_true is_empty "$group" &&
        same "$(committed "$group" "java-$RUN" | wc -l)" 3 &&
        ! grep -q . <(groups --describe --group "$group" --members 2>/dev/null | grep -v -e '^$' -e '^GROUP') &&
        groups --list --state Empty | grep -q "^$group "
}
is_empty() { groups --describe --group "$1" --state 2>/dev/null | grep -q "$1.*Empty"; }

moves_groups() {
    local group=java-console-$RUN
    groups --reset-offsets --group "$group" --topic "java-$RUN" --to-earliest --execute >/dev/null || return
    same "$(committed "$group" "java-$RUN")" $'0 0\n1 0\n2 0' || return
    local moved forgotten n due=
    moved=$(fullest) || return
    forgotten=$(((moved + 1) % 3))
    groups --reset-offsets --group "$group" --topic "java-$RUN:$moved" --to-offset 77 --execute >/dev/null || return
    groups --delete-offsets --group "$group" --topic "java-$RUN:$forgotten" >"$WORK/deleted" || { cat "$WORK/deleted" && return 1; }
    for n in 0 1 2; do
        case $n in
        "$moved") due+="$n 77"$'\n' ;;
        "$forgotten") ;;
        *) due+="$n 0"$'\n' ;;
        esac
    done
    same "$(committed "$group" "java-$RUN" | awk '$2 != "-"')" "${due%$'\n'}"
}

deletes_groups() {
    local group=java-console-$RUN
    groups --delete --group "$group" >"$WORK/deleted" || { cat "$WORK/deleted" && return 1; }
    ! groups --list | grep -qx "$group" || { echo "it is still listed" && return 1; }
    # The tool says so, and ends as if all were well.
    groups --describe --group "$group" 2>&1 | grep -c GroupIdNotFound >/dev/null
}

# The same, in the protocol in which the coordinator assigns.
consumer_protocol() {
    local group=java-modern-$RUN pid
    tool VerifiableConsumer --topic "java-$RUN" --group-id "$group" --group-protocol consumer --max-messages 20000 \
        --reset-policy earliest >"$WORK/modern" || { tail -n 3 "$WORK/modern" && return 1; }
    local sum=0 n
    for n in $(committed "$group" "java-$RUN" | cut -d' ' -f2); do sum=$((sum + n)); done
    same "$sum" 20000 && groups --list --state --type | grep -q "^$group  *Consumer  *Empty" || return
    # Somebody who is there until one more record comes.
    tool VerifiableConsumer --topic "java-$RUN" --group-id "$group" --group-protocol consumer --max-messages 1 \
        >"$WORK/modern" &
    pid=$!
    until_true is_stable "$group" && groups --describe --group "$group" --members --verbose >"$WORK/members" &&
        same "$(grep -c "^$group .*java-$RUN:0,1,2" "$WORK/members")" 1 &&
        groups --describe --group "$group" --state | grep -q "^$group .*uniform  *Stable  *1"
    n=$?
    tool VerifiableProducer --topic "java-$RUN" --max-messages 1 >/dev/null
    wait "$pid"
    [ "$n" -eq 0 ] || { cat "$WORK/members" && return 1; }
    until_true is_empty "$group" && groups --delete --group "$group"
}
is_stable() { groups --describe --group "$1" --state 2>/dev/null | grep -q "$1.*Stable"; }
# A transaction every 100 ms; its producer adds no partitions itself and raises its epoch with every end (KIP-890).
transactions() {
    local topic=java-transactions-$RUN
    topic --create --topic "$topic" --partitions 3 &&
        tool ProducerPerformance --topic "$topic" --num-records 20000 --record-size 100 --throughput 10000 \
            --transactional-id "$topic" --transaction-duration-ms 100 >"$WORK/perf" || { cat "$WORK/perf" && return 1; }
    grep -q '^20000 records sent' "$WORK/perf" || { cat "$WORK/perf" && return 1; }
    tool consumer.ConsoleConsumer --topic "$topic" --from-beginning --isolation-level read_committed \
        --max-messages 20000 --timeout-ms 30000 >"$WORK/committed" 2>"$WORK/consumer.err" || { cat "$WORK/consumer.err" && return 1; }
    same "$(wc -l <"$WORK/committed")" 20000
}

describes_transactions() {
    local id=java-transactions-$RUN
    transactions_command list >"$WORK/listed" && grep -q "^$id.*CompleteCommit" "$WORK/listed" &&
        transactions_command describe --transactional-id "$id" >"$WORK/described" &&
        grep -q "$id.*CompleteCommit" "$WORK/described" || { cat "$WORK/listed" "$WORK/described" && return 1; }
}

# The copier aborts at random and reads again what it had read; each record is copied once, as readers of committed
# records see it.
copies() {
    local in=java-in-$RUN out=java-out-$RUN
    topic --create --topic "$in" --partitions 1 && topic --create --topic "$out" --partitions 1 &&
        tool VerifiableProducer --topic "$in" --max-messages 3000 --throughput -1 --acks -1 >"$WORK/produced" || return
    timeout 120 java -Xmx256m -Dlog4j2.level=ERROR -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" \
        org.apache.kafka.tools.TransactionalMessageCopier --broker-list "$BOOTSTRAP" --input-topic "$in" \
        --input-partition 0 --output-topic "$out" --transactional-id "copier-$RUN" --consumer-group "copier-$RUN" \
        --transaction-size 100 --transaction-timeout 10000 --enable-random-aborts "$@" >"$WORK/copied" 2>"$WORK/copier.err" ||
        { tail -n 3 "$WORK/copied" && tail -n 20 "$WORK/copier.err" && return 1; }
    tool consumer.ConsoleConsumer --topic "$out" --from-beginning --isolation-level read_committed \
        --max-messages 3000 --timeout-ms 30000 >"$WORK/committed" 2>"$WORK/consumer.err" || { cat "$WORK/consumer.err" && return 1; }
    same "$(sort -n "$WORK/committed" | uniq | wc -l)" 3000
}

# Two members of a share group settle every record of a partition once, but those that they release.
shares() {
    timeout 120 java -Xmx256m -XX:+UseSerialGC -Dlog4j2.level=ERROR -cp "$(cat "$STOCK_BUILD/kafka-tools.classpath")" \
        "$HERE/Share.java" "$BOOTSTRAP" "java-share-$RUN" >"$WORK/shared" 2>"$WORK/share.err" ||
        { cat "$WORK/shared" && tail -n 20 "$WORK/share.err" && return 1; }
    same "$(cat "$WORK/shared")" 'settled=400 released=40 twice=0 failed=0 shared=true'
}

share_groups() { tool consumer.group.ShareGroupCommand "$@"; }
# Where the group is in its topic's one partition.
share_start() {
    share_groups --describe --group "java-share-$RUN" --offsets 2>"$WORK/groups.err" | awk -v t="java-share-$RUN" '$2 == t {print $4}'
}

administers_share_groups() {
    local group=java-share-$RUN
    # Kafka's own coordinator shows a start that lags behind what was settled last.
    until_true share_is_empty "$group" && share_groups --list | grep -q "^$group" && [ "$(share_start)" -gt 0 ] &&
        ! share_groups --describe --group "$group" --members 2>/dev/null | grep "^$group" || return
    share_groups --reset-offsets --group "$group" --topic "$group" --to-earliest --execute >"$WORK/reset" ||
        { cat "$WORK/reset" && return 1; }
    same "$(share_start)" 0 || return
    share_groups --delete-offsets --group "$group" --topic "$group" >"$WORK/deleted" || { cat "$WORK/deleted" && return 1; }
    same "$(share_start | tr -d -)" '' || return
    share_groups --delete --group "$group" >"$WORK/deleted" || { cat "$WORK/deleted" && return 1; }
    ! share_groups --list | grep "^$group" || { echo "it is still listed" && return 1; }
}
share_is_empty() { share_groups --describe --group "$1" --state 2>/dev/null | grep -q "$1.*Empty"; }

deletes() {
    topic --delete --topic "java-$RUN" && until_true gone "java-$RUN"
}
gone() { ! topic --list | grep -qx "$1"; }

claim topic_command_creates_and_describes creates
claim topic_command_lists lists
claim topic_command_grows_a_topic grows
claim verifiable_producer_finds_every_acknowledged_record_at_its_offset verifiable
claim get_offset_shell_shows_earliest_latest_and_by_time offsets
claim console_consumer_starts_at_an_offset from_the_middle
claim producer_performance_loses_nothing_with_any_codec performance
claim client_compatibility_test_passes compatibility
claim verifiable_consumers_of_a_group_read_on_where_the_last_committed verifiable_group
claim console_consumer_reads_everything_as_a_group console_group
claim consumer_groups_command_lists_and_describes describes_groups
claim consumer_groups_command_resets_and_deletes_offsets moves_groups
claim consumer_groups_command_deletes_a_group deletes_groups
claim verifiable_consumers_and_tools_know_groups_that_the_coordinator_assigns consumer_protocol
claim producer_performance_commits_transactions transactions
claim transactions_command_lists_and_describes describes_transactions
claim transactional_message_copier_copies_each_record_once copies
RUN=$RUN-group
claim transactional_message_copier_copies_as_a_member_of_its_group copies --group-mode --use-group-metadata
RUN=${RUN%-group}
claim members_of_a_share_group_settle_each_record_once shares
claim share_groups_command_lists_describes_resets_and_deletes administers_share_groups
claim topic_command_deletes deletes
tally java
