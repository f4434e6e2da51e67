import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes numbers under twenty keys, at a steady rate.
 *
 * <p>usage: Generate BOOTSTRAP APPLICATION COUNT PER_SECOND
 *
 * <p>Ends with 1 when a record was not acknowledged.
 */
public class Generate {
    static final int KEYS = 20;

    public static void main(String[] arguments) throws Exception {
        long count = Long.parseLong(arguments[2]), perSecond = Long.parseLong(arguments[3]);
        Properties settings = new Properties();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        AtomicLong refused = new AtomicLong();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new LongSerializer())) {
            long started = System.nanoTime();
            for (long n = 0; n < count; n++) {
                // A multiple of a prime, so that the least and the greatest do not simply come first and last.
                long value = n * 7919 % 1000003;
                producer.send(new ProducerRecord<>(arguments[1] + "-data", "key-" + n % KEYS, value), (place, error) -> {
                    if (error != null) {
                        System.out.println("not acknowledged: " + error);
                        refused.incrementAndGet();
                    }
                });
                long due = started + (n + 1) * 1_000_000_000 / perSecond, ahead = due - System.nanoTime();
                if (ahead > 1_000_000) {
                    Thread.sleep(ahead / 1_000_000);
                }
            }
        }
        System.out.println(count + " written, " + refused + " of them not acknowledged");
        System.exit(refused.get() == 0 ? 0 : 1);
    }
}
