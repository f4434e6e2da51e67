import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Holds what the instances of Count wrote against what Generate wrote.
 *
 * <p>usage: Verify BOOTSTRAP APPLICATION wait SECONDS    until each output has as many records as the input
 *        Verify BOOTSTRAP APPLICATION check            once all instances are closed
 *
 * <p>The check: each key's results are those of its records, in their order, each once; each bucket's count goes up by one to
 * what it should be; the whole input is committed; no transaction is left open in any topic of the application; and what was
 * counted is deleted of the repartition topic.
 */
public class Verify {
    static final Duration POLL = Duration.ofMillis(200);

    public static void main(String[] arguments) throws Exception {
        String application = arguments[1];
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(settings)) {
            List<String> faults = arguments[2].equals("wait")
                ? waited(admin, arguments[0], application, Integer.parseInt(arguments[3]))
                : checked(admin, arguments[0], application);
            faults.stream().limit(20).forEach(System.out::println);
            System.exit(faults.isEmpty() ? 0 : 1);
        }
    }

    static List<String> waited(Admin admin, String bootstrap, String application, int seconds) throws Exception {
        long until = System.nanoTime() + seconds * 1_000_000_000L, due = 0, keys = 0, buckets = 0;
        while (System.nanoTime() < until) {
            due = count(bootstrap, application + "-data");
            keys = count(bootstrap, application + "-keys");
            buckets = count(bootstrap, application + "-buckets");
            if (keys >= due && buckets >= due) {
                return List.of();
            }
            Thread.sleep(1000);
        }
        return List.of("after " + seconds + " s there are " + keys + " and " + buckets + " results of " + due + " records");
    }

    static List<String> checked(Admin admin, String bootstrap, String application) throws Exception {
        List<String> faults = new ArrayList<>();
        Map<String, List<String>> keys = new TreeMap<>(), buckets = new TreeMap<>();
        int records = 0;
        for (var record : read(bootstrap, application + "-data", new LongDeserializer())) {
            List<String> results = keys.computeIfAbsent(record.key(), key -> new ArrayList<>());
            results.add(Count.add(results.isEmpty() ? "" : results.get(results.size() - 1), record.value()));
            List<String> counts = buckets.computeIfAbsent(Count.bucket(record.value()), bucket -> new ArrayList<>());
            counts.add(Integer.toString(counts.size() + 1));
            records++;
        }
        compare(keys, results(bootstrap, application + "-keys"), faults);
        compare(buckets, results(bootstrap, application + "-buckets"), faults);
        committed(admin, application, faults);
        int partitions = closed(admin, application, faults);
        long purged = offsets(admin, Set.of(application + "-by-bucket-repartition"), OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
            .values().stream().mapToLong(Long::longValue).sum();
        if (purged == 0) {
            faults.add("nothing was deleted of the repartition topic");
        }
        System.out.println(records + " records counted by " + keys.size() + " keys and " + buckets.size() + " buckets; "
            + partitions + " partitions, " + purged + " offsets purged, " + faults.size() + " faults");
        return faults;
    }

    static void compare(Map<String, List<String>> due, Map<String, List<String>> got, List<String> faults) {
        due.forEach((key, results) -> {
            List<String> there = got.getOrDefault(key, List.of());
            int same = 0;
            while (same < Math.min(results.size(), there.size()) && results.get(same).equals(there.get(same))) {
                same++;
            }
            if (same < Math.max(results.size(), there.size())) {
                faults.add(key + " has " + there.size() + " results of " + results.size() + "; from the " + same + "th on they are "
                    + there.subList(same, Math.min(there.size(), same + 3)) + ", due "
                    + results.subList(same, Math.min(results.size(), same + 3)));
            }
        });
        got.keySet().stream().filter(key -> !due.containsKey(key)).forEach(key -> faults.add("nobody wrote " + key));
    }

    static void committed(Admin admin, String application, List<String> faults) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
        ends(admin, Set.of(application + "-data"), IsolationLevel.READ_COMMITTED).forEach((partition, end) -> {
            OffsetAndMetadata offset = committed.get(partition);
            if (offset == null ? end != 0 : offset.offset() != end) {
                faults.add(partition + " ends at " + end + ", committed is " + offset);
            }
        });
    }

    /** Every partition's last stable offset is its end. */
    static int closed(Admin admin, String application, List<String> faults) throws Exception {
        Set<String> topics = new HashSet<>(admin.listTopics().names().get());
        topics.removeIf(topic -> !topic.startsWith(application + "-"));
        Map<TopicPartition, Long> stable = ends(admin, topics, IsolationLevel.READ_COMMITTED);
        ends(admin, topics, IsolationLevel.READ_UNCOMMITTED).forEach((partition, end) -> {
            if (!stable.get(partition).equals(end)) {
                faults.add(partition + " ends at " + end + ", but is open from " + stable.get(partition));
            }
        });
        return stable.size();
    }

    static Map<TopicPartition, Long> ends(Admin admin, Set<String> topics, IsolationLevel isolation) throws Exception {
        return offsets(admin, topics, OffsetSpec.latest(), isolation);
    }

    static Map<TopicPartition, Long> offsets(Admin admin, Set<String> topics, OffsetSpec end, IsolationLevel isolation) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        admin.describeTopics(topics).allTopicNames().get().forEach((name, topic) ->
            topic.partitions().forEach(partition -> asked.put(new TopicPartition(name, partition.partition()), end)));
        Map<TopicPartition, Long> offsets = new HashMap<>();
        admin.listOffsets(asked, new ListOffsetsOptions(isolation)).all().get()
            .forEach((partition, offset) -> offsets.put(partition, offset.offset()));
        return offsets;
    }

    static Map<String, List<String>> results(String bootstrap, String topic) {
        Map<String, List<String>> results = new HashMap<>();
        for (var record : read(bootstrap, topic, new StringDeserializer())) {
            results.computeIfAbsent(record.key(), key -> new ArrayList<>()).add(record.value());
        }
        return results;
    }

    static long count(String bootstrap, String topic) {
        AtomicLong count = new AtomicLong();
        read(bootstrap, topic, new ByteArrayDeserializer(), record -> count.incrementAndGet());
        return count.get();
    }

    static <V> List<ConsumerRecord<String, V>> read(String bootstrap, String topic, Deserializer<V> values) {
        List<ConsumerRecord<String, V>> records = new ArrayList<>();
        read(bootstrap, topic, values, records::add);
        return records;
    }

    /** All committed records of a topic, each partition's in order. */
    static <V> void read(String bootstrap, String topic, Deserializer<V> values, Consumer<ConsumerRecord<String, V>> each) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), values)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(partition -> new TopicPartition(topic, partition.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            // A partition may end with a marker, which has an offset and is no record.
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                consumer.poll(POLL).forEach(each);
            }
        }
    }
}
