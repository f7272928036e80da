import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

import com.sun.tools.attach.VirtualMachine;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients, as a test wants them: it writes, changes topics, and reads as a member of groups.
 *
 * Try it with: cargo xtask kafka tool crates/milena-client/tests/outside/java/Peer.java HOST:PORT
 *
 * Each line on the standard input is a number and a command; the answer is a line "NUMBER ok WORDS" or
 * "NUMBER failed REASON". Commands run beside each other. What members of groups live through is told in lines
 * "! MEMBER assigned|revoked|lost PARTITION…" and "! MEMBER read PARTITION FIRST LAST".
 */
public class Peer {
    private static String address;
    private static Admin admin;
    private static final Map<String, KafkaProducer<byte[], byte[]>> producers = new ConcurrentHashMap<>();
    private static final Map<String, Flow> flows = new ConcurrentHashMap<>();
    private static final Map<String, Member> members = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        admin = Admin.create(settings());
        ExecutorService threads = Executors.newCachedThreadPool(Peer::daemon);
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            threads.execute(() -> {
                try {
                    say(words[0] + " ok " + run(words[1], Arrays.copyOfRange(words, 2, words.length)));
                } catch (Throwable e) {
                    say(words[0] + " failed " + String.valueOf(e).replace('\n', ' '));
                }
            });
        }
        System.exit(0);
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private static String run(String command, String[] words) throws Exception {
        return switch (command) {
            case "topic" -> createTopic(words);
            case "delete" -> {
                admin.deleteTopics(List.of(words[0])).all().get();
                yield "";
            }
            case "partitions" -> {
                admin.createPartitions(Map.of(words[0], NewPartitions.increaseTo(Integer.parseInt(words[1])))).all().get();
                yield "";
            }
            case "trim" -> {
                RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(words[1]));
                admin.deleteRecords(Map.of(partition(words[0]), before)).all().get();
                yield "";
            }
            case "send" -> {
                KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent("codec-" + words[1], any ->
                    producer(Map.of("compression.type", words[1], "linger.ms", "20")));
                yield send(producer, partition(words[0]), Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            }
            case "keyed" -> {
                KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent("keyed", any -> producer(Map.of()));
                for (String key : Arrays.asList(words).subList(1, words.length)) {
                    producer.send(new ProducerRecord<>(words[0], bytes(key), bytes("java")));
                }
                producer.flush();
                yield "";
            }
            case "read" -> read(partition(words[0]), words[1]);
            case "begin" -> {
                KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent("transactional-" + words[0], any -> {
                    KafkaProducer<byte[], byte[]> made = producer(Map.of("transactional.id", words[0]));
                    made.initTransactions();
                    return made;
                });
                producer.beginTransaction();
                yield "";
            }
            case "write" -> send(producers.get("transactional-" + words[0]), partition(words[1]),
                Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "commit" -> {
                producers.get("transactional-" + words[0]).commitTransaction();
                yield "";
            }
            case "abort" -> {
                producers.get("transactional-" + words[0]).abortTransaction();
                yield "";
            }
            case "flow" -> {
                flows.put(words[0], new Flow(words[0], Integer.parseInt(words[1])));
                yield "";
            }
            case "still" -> flows.remove(words[0]).end();
            case "offsets" -> admin.listConsumerGroupOffsets(words[0]).partitionsToOffsetAndMetadata().get().entrySet()
                .stream()
                .map(entry -> entry.getKey() + "=" + entry.getValue().offset() + ":" + entry.getValue().metadata())
                .sorted()
                .collect(Collectors.joining(" "));
            case "cluster" -> admin.describeCluster().clusterId().get();
            case "leader" -> {
                TopicPartition partition = partition(words[0]);
                yield String.valueOf(admin.describeTopics(List.of(partition.topic())).allTopicNames().get()
                    .get(partition.topic()).partitions().get(partition.partition()).leader().id());
            }
            case "coordinator" -> String.valueOf(
                admin.describeConsumerGroups(List.of(words[0])).all().get().get(words[0]).coordinator().id());
            case "join" -> {
                members.put(words[0], new Member(words[0], words[1], words[2], Arrays.asList(words).subList(3, words.length)));
                yield "";
            }
            case "leave" -> {
                members.remove(words[0]).end();
                yield "";
            }
            case "bytes-out" -> String.valueOf(bytesOut(words[0], words[1]));
            default -> throw new IllegalArgumentException(command);
        };
    }

    private static String createTopic(String[] words) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            configs.put(word.split("=")[0], word.split("=")[1]);
        }
        NewTopic topic = new NewTopic(words[0], java.util.Optional.of(Integer.parseInt(words[1])), java.util.Optional.empty());
        admin.createTopics(List.of(topic.configs(configs))).all().get();
        return "";
    }

    /** Reads "letters-eu-3". */
    private static TopicPartition partition(String text) {
        int dash = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Properties settings = settings();
        settings.putAll(more);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** A record that its number tells all of; records.rs knows the same rules. */
    private static ProducerRecord<byte[], byte[]> record(TopicPartition partition, int number) {
        byte[] key = number % 3 == 0 ? null : bytes("key " + number % 7);
        byte[] value = number % 5 == 0 ? null : bytes("value " + number + " " + "x".repeat(number % 50));
        long timestamp = 1_600_000_000_000L + number * 1000L;
        var record = new ProducerRecord<>(partition.topic(), partition.partition(), timestamp, key, value);
        for (int header = 0; header < number % 4; header++) {
            record.headers().add(new RecordHeader("header", header == 2 ? null : bytes(number + "/" + header)));
        }
        return record;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Says which offset the first record got and which the last. */
    private static String send(KafkaProducer<byte[], byte[]> producer, TopicPartition partition, int from, int count)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int number = from; number < from + count; number++) {
            sent.add(producer.send(record(partition, number)));
        }
        producer.flush();
        for (Future<RecordMetadata> future : sent) {
            future.get();
        }
        return sent.get(0).get().offset() + " " + sent.get(count - 1).get().offset();
    }

    /** All records of a partition that this isolation level shows, as OFFSET=VALUE. */
    private static String read(TopicPartition partition, String level) {
        Properties settings = settings();
        settings.put("isolation.level", level);
        settings.put("auto.offset.reset", "earliest");
        List<String> read = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    String value = record.value() == null ? "" : new String(record.value(), StandardCharsets.UTF_8);
                    read.add(record.offset() + "=" + value.replace(' ', '_'));
                }
            }
        }
        return String.join(" ", read);
    }

    /** Writes to all partitions of a topic until it is told to end. Each record's number is its offset. */
    private static class Flow implements Runnable {
        final String topic;
        final int partitions;
        final Thread thread = daemon(this);
        /** The number of the next record. */
        int end;
        volatile boolean isOver;
        Exception failure;

        Flow(String topic, int partitions) {
            this.topic = topic;
            this.partitions = partitions;
            thread.start();
        }

        @Override
        public void run() {
            try (var producer = producer(Map.of("linger.ms", "0", "delivery.timeout.ms", "120000", "acks", "all"))) {
                for (; !isOver; end++) {
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (int partition = 0; partition < partitions; partition++) {
                        sent.add(producer.send(record(new TopicPartition(topic, partition), end)));
                    }
                    for (Future<RecordMetadata> future : sent) {
                        future.get();
                    }
                    Thread.sleep(10);
                }
            } catch (Exception e) {
                failure = e;
            }
        }

        String end() throws Exception {
            isOver = true;
            thread.join();
            if (failure != null) {
                throw failure;
            }
            return String.valueOf(end);
        }
    }

    /** A consumer with a thread of its own. Whatever it has read is committed before anybody else can have the partition. */
    private static class Member implements ConsumerRebalanceListener, Runnable {
        final String name;
        final String topic;
        final KafkaConsumer<byte[], byte[]> consumer;
        final Thread thread = daemon(this);
        volatile boolean isOver;

        Member(String name, String group, String topic, List<String> more) {
            this.name = name;
            this.topic = topic;
            Properties settings = settings();
            settings.put("group.id", group);
            settings.put("client.id", name);
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            settings.put("metadata.max.age.ms", "1000");
            // It is for a busy machine.
            settings.put("default.api.timeout.ms", "180000");
            for (String setting : more) {
                settings.put(setting.split("=")[0], setting.split("=")[1]);
            }
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            thread.start();
        }

        void end() throws InterruptedException {
            isOver = true;
            thread.join();
        }

        @Override
        public void run() {
            try {
                consumer.subscribe(List.of(topic), this);
                while (!isOver) {
                    tell(consumer.poll(Duration.ofMillis(100)));
                    try {
                        consumer.commitSync();
                    } catch (RebalanceInProgressException e) {
                        // The next poll goes on with that, and hands over what was read.
                    }
                }
                consumer.close();
            } catch (Exception e) {
                say("! " + name + " failed " + String.valueOf(e).replace('\n', ' '));
            }
        }

        void tell(ConsumerRecords<byte[], byte[]> records) {
            for (TopicPartition partition : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> some = records.records(partition);
                long first = some.get(0).offset();
                say("! " + name + " read " + partition + " " + first + " " + some.get(some.size() - 1).offset());
            }
        }

        void tell(String what, Collection<TopicPartition> partitions) {
            String names = partitions.stream().map(TopicPartition::toString).collect(Collectors.joining(" "));
            say("! " + name + " " + what + " " + names);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            consumer.commitSync();
            tell("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions);
        }
    }

    /** What a broker, which runs as a process on this machine, has sent of a topic to consumers. */
    private static long bytesOut(String process, String topic) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(process);
        String url = machine.startLocalManagementAgent();
        machine.detach();
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            var name = new ObjectName("kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=" + topic);
            var server = connector.getMBeanServerConnection();
            return server.isRegistered(name) ? (Long) server.getAttribute(name, "Count") : 0;
        }
    }
}
