import static org.apache.kafka.clients.consumer.AcknowledgeType.ACCEPT;
import static org.apache.kafka.clients.consumer.AcknowledgeType.REJECT;
import static org.apache.kafka.clients.consumer.AcknowledgeType.RELEASE;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Two members of a share group read one partition between them: of ten records each accepts eight, rejects one, and
 * releases one, which is then accepted by whoever gets it again.
 *
 * <p>usage: Share BOOTSTRAP TOPIC (which is the group's name too)
 */
public class Share {
    static final int RECORDS = 400;
    static final Map<Integer, AcknowledgeType> settled = new ConcurrentHashMap<>();
    static final AtomicInteger released = new AtomicInteger(), twice = new AtomicInteger(), failed = new AtomicInteger();
    static final CountDownLatch left = new CountDownLatch(RECORDS);
    static volatile boolean stopping;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Map<String, Object> common = Map.of("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) -1))).all().get();
            var earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            var group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
        int[] counts = new int[2];
        Thread[] members = {member(common, topic, counts, 0), member(common, topic, counts, 1)};
        try (var producer = new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < RECORDS; i++) {
                producer.send(new ProducerRecord<>(topic, String.valueOf(i)));
                // Some dozens of batches.
                if (i % 10 == 9) {
                    producer.flush();
                }
            }
        }
        boolean all = left.await(60, TimeUnit.SECONDS);
        stopping = true;
        for (Thread member : members) {
            member.join();
        }
        System.out.printf("settled=%d released=%d twice=%d failed=%d shared=%s%n",
                settled.size(), released.get(), twice.get(), failed.get(), counts[0] > 0 && counts[1] > 0);
        System.exit(all && failed.get() == 0 ? 0 : 1);
    }

    static Thread member(Map<String, Object> common, String topic, int[] counts, int me) {
        Map<String, Object> configs = new HashMap<>(common);
        configs.put("group.id", topic);
        configs.put("share.acknowledgement.mode", "explicit");
        configs.put("max.poll.records", 10);
        Thread thread = new Thread(() -> {
            try (var consumer = new KafkaShareConsumer<>(configs, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic));
                while (left.getCount() > 0 && !stopping) {
                    Map<Integer, AcknowledgeType> said = new HashMap<>();
                    for (var record : consumer.poll(Duration.ofMillis(500))) {
                        int i = Integer.parseInt(record.value());
                        short count = record.deliveryCount().orElse((short) 0);
                        AcknowledgeType type = i % 10 == 7 ? REJECT : i % 10 == 3 && count == 1 ? RELEASE : ACCEPT;
                        consumer.acknowledge(record, type);
                        said.put(i, type);
                        counts[me]++;
                    }
                    for (var error : consumer.commitSync().values()) {
                        error.ifPresent(e -> {
                            System.err.println(e);
                            failed.incrementAndGet();
                        });
                    }
                    said.forEach(Share::settle);
                }
            } catch (RuntimeException e) {
                e.printStackTrace();
                failed.incrementAndGet();
            }
        });
        thread.start();
        return thread;
    }

    static void settle(int record, AcknowledgeType type) {
        if (type == RELEASE) {
            released.incrementAndGet();
        } else if (settled.put(record, type) != null) {
            twice.incrementAndGet();
        } else {
            left.countDown();
        }
    }
}
