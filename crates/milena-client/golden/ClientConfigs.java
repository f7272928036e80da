import java.io.StringReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.format.DateTimeParseException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;

/**
 * Writes what Kafka's own clients say about their configuration, for tests/golden/configs.txt.
 *
 * Run by `cargo xtask golden`. Columns are separated by tabs; the first says what the line is:
 *
 * consumer, producer, admin: name, type, default, allowed values, importance, whether it is hidden.
 * accepts: settings separated by semicolons, and whether a consumer can be made with them.
 * produces: settings, whether a producer can be made with them, and what then became of enable.idempotence, acks and
 *   delivery.timeout.ms.
 * duration: a text, and what java.time.Duration makes of it: seconds and nanoseconds, or no.
 * properties: a text, and the keys and values that java.util.Properties reads from it, or no; all in hexadecimal.
 */
public class ClientConfigs {
    public static void main(String[] arguments) throws Exception {
        describe("consumer", ConsumerConfig.configDef());
        describe("producer", ProducerConfig.configDef());
        describe("admin", AdminClientConfig.configDef());
        for (String settings : SETTINGS) {
            System.out.println("accepts\t" + settings + "\t" + (accepts(settings) ? "yes" : "no"));
        }
        for (String settings : PRODUCERS) {
            System.out.println("produces\t" + settings + "\t" + produces(settings));
        }
        for (String text : DURATIONS) {
            System.out.println("duration\t" + text + "\t" + duration(text));
        }
        for (String text : PROPERTIES) {
            System.out.println("properties\t" + hex(text) + "\t" + properties(text));
        }
    }

    private static void describe(String kind, ConfigDef definitions) {
        for (ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            String allowed = key.validator == null ? "" : key.validator.toString();
            String shown = key.internalConfig ? "hidden" : "shown";
            System.out.println(String.join("\t", kind, key.name, key.type.toString(), defaultOf(key), allowed,
                key.importance.toString(), shown));
        }
    }

    private static String defaultOf(ConfigKey key) {
        if (!key.hasDefault()) {
            return "required";
        }
        if (key.defaultValue == null) {
            return "null";
        }
        // Kafka has classes themselves in the default of partition.assignment.strategy.
        String text = ConfigDef.convertToString(key.defaultValue, key.type);
        return "\"" + text.replace("class ", "") + "\"";
    }

    private static boolean accepts(String settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "127.0.0.1:9092");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        for (String setting : settings.split(";")) {
            int equals = setting.indexOf('=');
            properties.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        try {
            new KafkaConsumer<byte[], byte[]>(properties).close(Duration.ZERO);
            return true;
        } catch (KafkaException | IllegalArgumentException refused) {
            return false;
        }
    }

    private static String produces(String settings) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "127.0.0.1:9092");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        for (String setting : settings.split(";")) {
            int equals = setting.indexOf('=');
            properties.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            ProducerConfig config = (ProducerConfig) read(producer, "producerConfig");
            Object accumulator = read(producer, "accumulator");
            String acks = config.getString("acks").replace("all", "-1");
            return "yes\t" + config.getBoolean("enable.idempotence") + "\t" + acks + "\t"
                + read(accumulator, "deliveryTimeoutMs");
        } catch (KafkaException | IllegalArgumentException refused) {
            return "no";
        }
    }

    /** What the delivery timeout became stands nowhere else. */
    private static Object read(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    private static String duration(String text) {
        try {
            Duration duration = Duration.parse(text);
            return duration.isNegative() ? "no" : duration.getSeconds() + "\t" + duration.getNano();
        } catch (DateTimeParseException refused) {
            return "no";
        }
    }

    private static String properties(String text) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException refused) {
            return "no";
        }
        StringBuilder read = new StringBuilder();
        for (Map.Entry<Object, Object> entry : new TreeMap<>(properties).entrySet()) {
            read.append(hex(entry.getKey().toString())).append('=').append(hex(entry.getValue().toString())).append(' ');
        }
        return read.toString().trim();
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    private static final List<String> SETTINGS = List.of(
        // The group.
        "group.id=g", "group.id=", "group.id= ", "group.id=g ",
        "enable.auto.commit=true", "enable.auto.commit=false", "enable.auto.commit=true;group.id=g",
        "enable.auto.commit=yes", "enable.auto.commit= TRUE ",
        "group.instance.id=a.b_c-1;group.id=g", "group.instance.id=;group.id=g", "group.instance.id=a b;group.id=g",
        "group.instance.id=..;group.id=g", "group.instance.id=é;group.id=g", "group.instance.id=i",
        // The protocols.
        "group.protocol=consumer;group.id=g", "group.protocol=CONSUMER;group.id=g", "group.protocol=Classic;group.id=g",
        "group.protocol=other;group.id=g",
        "group.protocol=consumer;group.id=g;session.timeout.ms=45000",
        "group.protocol=consumer;group.id=g;heartbeat.interval.ms=3000",
        "group.protocol=consumer;group.id=g;partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor",
        "group.protocol=consumer;group.id=g;partition.assignment.strategy=",
        "group.protocol=consumer;group.id=g;group.remote.assignor=uniform",
        "group.id=g;group.remote.assignor=uniform", "group.id=g;group.remote.assignor=",
        "group.id=g;group.remote.assignor= ",
        "group.id=g;heartbeat.interval.ms=45000", "group.id=g;heartbeat.interval.ms=44999",
        "group.id=g;session.timeout.ms=3000", "group.id=g;session.timeout.ms=3001",
        "group.id=g;heartbeat.interval.ms=0",
        // Lists.
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor;group.id=g",
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor , "
            + "org.apache.kafka.clients.consumer.CooperativeStickyAssignor;group.id=g",
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor,"
            + "org.apache.kafka.clients.consumer.RangeAssignor;group.id=g",
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor,,;group.id=g",
        "partition.assignment.strategy=none.Such;group.id=g", "partition.assignment.strategy=;group.id=g",
        "bootstrap.servers=127.0.0.1:9092,127.0.0.1:9092", "bootstrap.servers=127.0.0.1:9092,,127.0.0.1:9093",
        "bootstrap.servers=", "bootstrap.servers=127.0.0.1", "bootstrap.servers=127.0.0.1:99999",
        "bootstrap.servers=127.0.0.1:x", "bootstrap.servers=[::1]:9092", "bootstrap.servers=::1:9092",
        "bootstrap.servers=PLAINTEXT://127.0.0.1:9092", "bootstrap.servers= 127.0.0.1:9092 , 127.0.0.1:9093 ",
        "bootstrap.servers=127.0.0.1:9092/path", "bootstrap.servers=[::1:9092",
        // Where to begin.
        "auto.offset.reset=earliest", "auto.offset.reset=Earliest", "auto.offset.reset=none", "auto.offset.reset=",
        "auto.offset.reset=by_duration:P1DT2H", "auto.offset.reset=by_duration:", "auto.offset.reset=by_duration",
        "auto.offset.reset=by_duration:-PT1S", "auto.offset.reset=by_duration:1h", "auto.offset.reset=earliest ",
        // Names and numbers.
        "isolation.level=read_committed", "isolation.level=READ_COMMITTED", "isolation.level= read_committed",
        "metadata.recovery.strategy=None", "metadata.recovery.strategy=other",
        "max.poll.records=0", "max.poll.records=1", "max.poll.records= +7 ", "max.poll.records=1.0",
        "max.poll.records=2147483647", "max.poll.records=2147483648", "max.poll.records=",
        "max.poll.interval.ms=0", "fetch.min.bytes=-1", "fetch.min.bytes=0", "fetch.max.bytes=0",
        "receive.buffer.bytes=-1", "receive.buffer.bytes=-2", "send.buffer.bytes=-2",
        "connections.max.idle.ms=-1", "auto.commit.interval.ms=-1", "request.timeout.ms=-1",
        "retry.backoff.ms=-1", "metadata.max.age.ms=-1", "metrics.num.samples=0",
        "client.id=", "client.rack=",
        // What we refuse and Kafka does not: see the test.
        "fetch.max.wait.ms=30000", "fetch.max.wait.ms=29999", "retry.backoff.ms=2000",
        "reconnect.backoff.ms=2000", "reconnect.backoff.ms=2000;reconnect.backoff.max.ms=1000",
        "socket.connection.setup.timeout.ms=40000", "fetch.min.bytes=2;fetch.max.bytes=1");

    private static final List<String> PRODUCERS = List.of(
        // Idempotence, and what it needs.
        "acks=all", "acks=-1", "acks=1", "acks=0", "acks=2", "acks=ALL", "acks= 1 ", "acks=",
        "retries=0", "retries=1", "retries=-1", "retries=2147483648",
        "enable.idempotence=true", "enable.idempotence=false", "enable.idempotence=true;acks=1",
        "enable.idempotence=true;acks=0", "enable.idempotence=true;acks=-1", "enable.idempotence=true;retries=0",
        "enable.idempotence=true;retries=1", "enable.idempotence=false;acks=1;retries=0", "acks=0;retries=0",
        "max.in.flight.requests.per.connection=5", "max.in.flight.requests.per.connection=6",
        "max.in.flight.requests.per.connection=0", "max.in.flight.requests.per.connection=6;enable.idempotence=true",
        "max.in.flight.requests.per.connection=6;enable.idempotence=false",
        "max.in.flight.requests.per.connection=6;acks=1", "max.in.flight.requests.per.connection=6;retries=0",
        // Transactions.
        "transactional.id=t", "transactional.id=", "transactional.id=t;acks=1", "transactional.id=t;retries=0",
        "transactional.id=t;enable.idempotence=false", "transactional.id=t;enable.idempotence=true",
        "transactional.id=t;acks=all;retries=3", "transaction.timeout.ms=0", "transaction.timeout.ms=-1",
        "transactional.id=t;max.in.flight.requests.per.connection=6",
        "transaction.two.phase.commit.enable=true", "transaction.two.phase.commit.enable=true;transaction.timeout.ms=5",
        // Times.
        "delivery.timeout.ms=30004", "delivery.timeout.ms=30005", "delivery.timeout.ms=0", "delivery.timeout.ms=-1",
        "linger.ms=90000", "linger.ms=90001", "linger.ms=9223372036854775807", "linger.ms=-1", "linger.ms=0.5",
        "request.timeout.ms=120000", "request.timeout.ms=2147483647", "request.timeout.ms=0;linger.ms=0;delivery.timeout.ms=0",
        "delivery.timeout.ms=120000;request.timeout.ms=119995", "delivery.timeout.ms=120000;request.timeout.ms=119996",
        "max.block.ms=-1", "max.block.ms=0", "metadata.max.idle.ms=4999", "metadata.max.idle.ms=5000",
        "retry.backoff.ms=2000", "reconnect.backoff.ms=2000",
        // Sizes.
        "batch.size=0", "batch.size=-1", "buffer.memory=0", "buffer.memory=-1", "max.request.size=0", "max.request.size=-1",
        // Codecs.
        "compression.type=gzip", "compression.type=snappy", "compression.type=lz4", "compression.type=zstd",
        "compression.type=LZ4", "compression.type=brotli", "compression.type=producer", "compression.type=",
        "compression.gzip.level=0", "compression.gzip.level=-1", "compression.gzip.level=-2", "compression.gzip.level=9",
        "compression.gzip.level=10", "compression.lz4.level=0", "compression.lz4.level=1", "compression.lz4.level=17",
        "compression.lz4.level=18", "compression.zstd.level=-131073", "compression.zstd.level=-131072",
        "compression.zstd.level=22", "compression.zstd.level=23", "compression.type=snappy;compression.zstd.level=7",
        // Partitioners.
        "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner",
        "partitioner.class=org.apache.kafka.clients.producer.internals.DefaultPartitioner",
        "partitioner.class=org.apache.kafka.clients.producer.UniformStickyPartitioner", "partitioner.class=none.Such",
        "partitioner.ignore.keys=true", "partitioner.ignore.keys=yes",
        "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner;partitioner.ignore.keys=true",
        "partitioner.availability.timeout.ms=-1", "partitioner.availability.timeout.ms=0",
        "partitioner.adaptive.partitioning.enable=false", "client.id=");

    private static final List<String> DURATIONS = List.of(
        "P1D", "P2DT3H4M", "PT20.345S", "PT15M", "PT10H", "P2D", "PT-6H3M", "-PT6H3M", "-PT-6H+3M", "P-6H", "PT0S", "P0D",
        "+P1D", "-P-1D", "p1dt2h3m4.5s", "PT1,5S", "PT.5S", "PT5.S", "PT0.0000000001S", "PT0.123456789S", "PT-0.5S",
        "PT1S-", "P", "PT", "P1DT", "P1W", "P1M", "P1Y", "PT1M1H", "PT1H1H", "1D", "", " P1D", "P1D ", "P 1D", "PT1e3S",
        "P1.5D", "PT+5S", "PT++5S", "P-1DT25H", "P1DT-25H", "PT9223372036854775807S", "PT9223372036854775808S",
        "P106751991167300D", "P106751991167301D", "PT9223372036854775807.999999999S", "P1DT9223372036854775807S",
        "PT-0.000000001S", "PT1.S", "PT1H2S", "PT2S1M", "--P1D", "-P1D", "P+1D", "PTH", "P1DT1", "PT1", "P1D1H", "PT1D");

    private static final List<String> PROPERTIES = List.of(
        "a=b\\\n   c", "k\\:x:v", "  lead = trail  ", "empty", "e2=", "u=\\u00e9\\t\\q", "u=\\ud83e\\udd80", "sp\\ ace w",
        "c1=a\\\\", "d=1\\\n#notcomment", "x==y", "z = : w", "end\\", "! x\r\n#y\r\rcrlf=1\r\n",
        "# a comment does not go on \\\na=1", "a\\\\=b", " \n\n#\n", "a=1\nb=\\u12g4", "a=\\u00e", "a=1\nb=2\n\nc",
        "a\\\n=b", "a=\\\n\\\n b", "\\#a=1", "\ta\f:\f1", "a=\\\r\n  b", "=v", "\u00e9=\u00fc", "a=b\\\n", "a=\\u0041\\u0042",
        "a = b = c # d", "a\\=b=c", "a=\\'\\\"", "a=1\n  ! b\nc=3");
}
