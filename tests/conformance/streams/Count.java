import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * One instance of an application that counts what Generate writes, exactly once, until it is told to stop.
 *
 * <p>Of each key it keeps how many values there were, the least, the greatest and their sum, and of each bucket of values,
 * which are spread over all keys, how many there were: the first needs a state store and its changelog, the second a
 * repartition topic besides. Nothing is cached, so that each record of the input is one of either output, which is what
 * Verify counts on.
 *
 * <p>usage: Count BOOTSTRAP APPLICATION STATE-DIRECTORY [PROPERTY=VALUE…]
 *
 * <p>Ends with 0 when it was told to, with 1 when a thread gave up.
 */
public class Count {
    static final int BUCKETS = 10;

    public static void main(String[] arguments) throws Exception {
        Properties settings = settings(arguments);
        CountDownLatch ended = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(topology(arguments[1]), settings);
        streams.setUncaughtExceptionHandler(error -> {
            say("a thread gave up: " + error);
            error.printStackTrace(System.out);
            ended.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> say(before + " -> " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            say(streams.close(Duration.ofSeconds(60)) ? "closed" : "not closed after a minute");
            System.out.flush();
        }));
        streams.start();
        ended.await();
        System.exit(1);
    }

    static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 5000);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 10000);
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        return settings;
    }

    static Topology topology(String application) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> data = builder.stream(application + "-data", Consumed.with(Serdes.String(), Serdes.Long()));
        data.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .aggregate(() -> "", (key, value, soFar) -> add(soFar, value),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("keys")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .toStream()
            .to(application + "-keys", Produced.with(Serdes.String(), Serdes.String()));
        data.groupBy((key, value) -> bucket(value), Grouped.with("by-bucket", Serdes.String(), Serdes.Long()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("buckets")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(application + "-buckets", Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    static String bucket(long value) {
        return "bucket-" + value % BUCKETS;
    }

    /** "count least greatest sum" with one more value. */
    static String add(String soFar, long value) {
        if (soFar.isEmpty()) {
            return "1 " + value + " " + value + " " + value;
        }
        String[] words = soFar.split(" ");
        return Long.parseLong(words[0]) + 1
            + " " + Math.min(Long.parseLong(words[1]), value)
            + " " + Math.max(Long.parseLong(words[2]), value)
            + " " + (Long.parseLong(words[3]) + value);
    }

    static void say(String what) {
        System.out.println(java.time.LocalTime.now() + " " + what);
    }
}
