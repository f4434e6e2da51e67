import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes and reads until it is told to stop (tests/bounce.sh), saying five times a second how far it is.
 *
 * <p>usage: Bounce BOOTSTRAP TOPIC ZONE RECORDS_PER_SECOND
 */
public class Bounce {
    static final int PARTITIONS = 3;
    static final Duration PATIENCE = Duration.ofSeconds(60);
    static final AtomicLong acked = new AtomicLong(), read = new AtomicLong(), failed = new AtomicLong();
    static final AtomicBoolean draining = new AtomicBoolean();

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1], zone = arguments[2];
        long perSecond = Long.parseLong(arguments[3]);
        AtomicBoolean stopping = new AtomicBoolean();
        Thread main = Thread.currentThread();
        // The process ends when this hook does: it waits until everything is counted.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping.set(true);
            try {
                main.join();
            } catch (InterruptedException e) {
                failed.incrementAndGet();
            }
        }));
        Map<String, Object> common = Map.of("bootstrap.servers", arguments[0], "client.id", "java,zone=" + zone);
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 3))).all().get();
        }
        Thread reading = new Thread(() -> read(common, topic, zone)), telling = new Thread(Bounce::keepTelling);
        reading.start();
        telling.start();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            String padding = "0".repeat(100);
            long started = System.nanoTime();
            for (long sequence = 0; !stopping.get(); sequence++) {
                var record = new ProducerRecord<String, String>(topic, (int) (sequence % PARTITIONS), null, sequence + " " + padding);
                producer.send(record, (metadata, error) -> (error == null ? acked : failed).incrementAndGet());
                long due = started + TimeUnit.SECONDS.toNanos(sequence + 1) / perSecond;
                TimeUnit.NANOSECONDS.sleep(Math.max(0, due - System.nanoTime()));
            }
            producer.flush();
        }
        long patience = System.nanoTime() + PATIENCE.toNanos();
        while (read.get() < acked.get() && System.nanoTime() < patience) {
            Thread.sleep(50);
        }
        draining.set(true);
        reading.join();
        telling.join();
        tell();
    }

    static void read(Map<String, Object> common, String topic, String zone) {
        var settings = new java.util.HashMap<>(common);
        settings.putAll(Map.of("client.rack", zone, "auto.offset.reset", "none", "enable.auto.commit", false));
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            var partitions = IntStream.range(0, PARTITIONS).mapToObj(n -> new TopicPartition(topic, n)).toList();
            consumer.assign(partitions);
            partitions.forEach(partition -> consumer.seek(partition, 0));
            while (!draining.get()) {
                try {
                    read.addAndGet(consumer.poll(Duration.ofMillis(200)).count());
                } catch (RuntimeException e) {
                    failed.incrementAndGet();
                }
            }
        }
    }

    static void keepTelling() {
        while (!draining.get()) {
            tell();
            try {
                Thread.sleep(200);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    static void tell() {
        System.out.println(System.currentTimeMillis() + " " + acked + " " + read + " " + failed);
        System.out.flush();
    }
}
