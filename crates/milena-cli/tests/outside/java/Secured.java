import java.io.FileInputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Logs in to a secured broker with Kafka's clients, with each of the given properties files.
 *
 * <p>{@code talk 0 FILE…} writes and reads records. {@code refused 0 FILE…} expects errors of authentication. {@code stay
 * SECONDS FILE…} writes and reads all the time, over several sessions of a connection.
 */
public class Secured {
    private static final int COUNT = 20;
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        for (int i = 2; i < arguments.length; i++) {
            Properties login = new Properties();
            try (FileInputStream file = new FileInputStream(arguments[i])) {
                login.load(file);
            }
            String name = arguments[i].replaceAll(".*/", "").replaceAll("\\.properties$", "");
            switch (arguments[0]) {
                case "talk" -> talk(login, name);
                case "refused" -> refused(login, name);
                case "stay" -> stay(login, name, Long.parseLong(arguments[1]));
                default -> throw new IllegalArgumentException(arguments[0]);
            }
        }
    }

    private static Properties with(Properties login, Map<String, String> more) {
        Properties all = new Properties();
        all.putAll(login);
        all.putAll(more);
        return all;
    }

    private static KafkaProducer<String, String> producer(Properties login) {
        return new KafkaProducer<>(with(login, Map.of()), new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Properties login, String topic) {
        Map<String, String> more = Map.of("group.id", topic, "auto.offset.reset", "earliest", "fetch.max.wait.ms", "50");
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(with(login, more), new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static void create(Properties login, String topic) throws Exception {
        try (Admin admin = Admin.create(login)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get(30, TimeUnit.SECONDS);
        }
    }

    private static void talk(Properties login, String name) throws Exception {
        String topic = "letters-java-" + name;
        create(login, topic);
        List<String> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(login)) {
            for (int number = 0; number < COUNT; number++) {
                sent.add("letter " + number + " by " + name);
                long offset = producer.send(new ProducerRecord<>(topic, sent.get(number))).get().offset();
                expect(offset == number, "offset " + offset + " of record " + number);
            }
        }
        List<String> read = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(login, topic)) {
            long deadline = System.nanoTime() + TIMEOUT.toNanos();
            while (read.size() < COUNT && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> read.add(record.value()));
            }
        }
        expect(read.equals(sent), "read " + read);
        System.out.println("talked " + name);
    }

    private static void refused(Properties login, String name) throws Exception {
        try (Admin admin = Admin.create(login)) {
            admin.describeCluster().nodes().get(30, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            expect(error.getCause() instanceof AuthenticationException, String.valueOf(error.getCause()));
            Throwable cause = error.getCause();
            System.out.println("refused " + name + ": " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
            return;
        }
        expect(false, name + " was not refused");
    }

    private static void stay(Properties login, String name, long seconds) throws Exception {
        String topic = "letters-java-stay-" + name;
        create(login, topic);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        List<Integer> read = new ArrayList<>();
        int sent = 0;
        try (KafkaProducer<String, String> producer = producer(login);
                KafkaConsumer<String, String> consumer = consumer(login, topic)) {
            while (System.nanoTime() < end || read.size() < sent) {
                expect(System.nanoTime() < end + TIMEOUT.toNanos(), "read " + read.size() + " of " + sent);
                if (System.nanoTime() < end) {
                    long offset = producer.send(new ProducerRecord<>(topic, "" + sent)).get().offset();
                    expect(offset == sent, "offset " + offset + " of record " + sent);
                    sent++;
                }
                consumer.poll(Duration.ofMillis(20)).forEach(record -> read.add(Integer.valueOf(record.value())));
            }
        }
        for (int number = 0; number < sent; number++) {
            expect(read.get(number) == number, "record " + read.get(number) + " in place of " + number);
        }
        expect(read.size() == sent, "read " + read.size() + " of " + sent);
        System.out.println("stayed " + name + ": " + sent + " records");
    }

    private static void expect(boolean holds, String problem) {
        if (!holds) {
            throw new AssertionError(problem);
        }
    }
}
