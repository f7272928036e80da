import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's consumers in groups of every kind: members join, leave, die and restart, and so does the broker.
 *
 * Run with: cargo xtask kafka tool crates/milena-cli/tests/outside/java/Groups.java HOST:PORT [GROUP…]
 *
 * It prints "restart the broker" and reads a line before it continues; its last line is "all as expected".
 *
 * Invariants: a partition never has two owners; in a stable group every partition has one, and member counts differ by
 * at most one; every record is read; committed offsets never go back; neither a restarted broker nor a restarted static
 * member causes a rebalance.
 */
public class Groups {
    private static final int PARTITIONS = 6;
    private static final int RECORDS = 240;
    private static final long PATIENCE_MS = 60_000;
    /** Long enough for a busy machine; in the consumer protocol the broker sets it. */
    private static final String SESSION_TIMEOUT_MS = "15000";

    private static String address;
    private static Admin admin;
    private static KafkaProducer<String, String> producer;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        admin = Admin.create(settings());
        producer = new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer());
        List<Group> groups = new ArrayList<>();
        for (String assignor : List.of("Range", "RoundRobin", "Sticky", "CooperativeSticky")) {
            groups.add(new Group(assignor, classic(assignor), classic(assignor)));
        }
        groups.add(new Group("uniform", consumer("uniform"), consumer("uniform")));
        groups.add(new Group("range", consumer("range"), consumer("range")));
        groups.add(new Group("pattern", consumer("uniform"), consumer("uniform")));
        groups.add(new Group("mixed", classic("CooperativeSticky"), consumer("uniform")));

        if (arguments.length > 1) {
            groups.removeIf(group -> !List.of(arguments).contains(group.name));
        }
        inParallel(groups, Group::begin);
        System.out.println("restart the broker");
        if (System.in.read() < 0) {
            throw new IllegalStateException("nobody restarts the broker");
        }
        inParallel(groups, Group::goOn);
        System.out.println("all as expected");
        System.exit(0);
    }

    private interface Step {
        void run(Group group) throws Exception;
    }

    private static void inParallel(List<Group> groups, Step step) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Callable<Void>> calls = groups.stream().map(group -> (Callable<Void>) () -> {
            step.run(group);
            return null;
        }).toList();
        for (Future<Void> done : threads.invokeAll(calls)) {
            done.get();
        }
        threads.shutdown();
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("reconnect.backoff.max.ms", "100");
        settings.put("linger.ms", "0");
        // Kafka itself can refuse the first of several batches for a new partition, and then all that follow.
        settings.put("max.in.flight.requests.per.connection", "1");
        return settings;
    }

    private static Map<String, String> classic(String assignor) {
        return Map.of(
            "group.protocol", "classic",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor + "Assignor",
            "session.timeout.ms", SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms", "300");
    }

    private static Map<String, String> consumer(String assignor) {
        return Map.of("group.protocol", "consumer", "group.remote.assignor", assignor);
    }

    /** The steps of one group, in order. */
    private static class Group {
        final String name;
        final List<String> topics;
        final Map<String, String> first;
        final Map<String, String> later;
        final Ledger ledger;
        final Map<String, Member> members = new TreeMap<>();
        final List<Future<RecordMetadata>> sent = new ArrayList<>();
        Map<String, Integer> changesBefore;

        Group(String name, Map<String, String> first, Map<String, String> later) {
            this.name = name;
            this.topics = name.equals("pattern") ? List.of("pattern-a", "pattern-b") : List.of("letters-" + name);
            this.first = first;
            this.later = later;
            this.ledger = new Ledger(this.name);
        }

        void begin() throws Exception {
            List<NewTopic> wanted = topics.stream()
                .map(topic -> new NewTopic(topic, PARTITIONS / topics.size(), (short) 1))
                .toList();
            admin.createTopics(wanted).all().get();
            send();
            Thread watcher = new Thread(this::watch);
            watcher.setDaemon(true);
            watcher.start();
            // One after the other. Java's client says that it owns nothing as long as it does not know what its topics are
            // called, and takes them a moment later, even if the broker has given them to another by then.
            join("dynamic", first, false);
            settle("one member");
            join("static", first, true);
            settle("two members");
            send();
            join("late", later, false);
            settle("three members");
            changesBefore = ledger.changes();
            // In flight while the broker dies.
            send();
        }

        void goOn() throws Exception {
            settle("after the broker's restart");
            expectNoChange("the broker's restart");

            leave("dynamic", GroupMembershipOperation.LEAVE_GROUP);
            settle("after one left");

            changesBefore = ledger.changes();
            Set<TopicPartition> owned = ledger.ownedBy("static");
            leave("static", GroupMembershipOperation.DEFAULT);
            send();
            join("static", first, true);
            settle("after a static member started again");
            if (!ledger.ownedBy("static").equals(owned)) {
                throw ledger.failure("the static member owned " + owned + " before");
            }
            changesBefore.remove("static");
            expectNoChange("a static member's restart");

            leave("late", GroupMembershipOperation.REMAIN_IN_GROUP);
            send();
            settle("after one died");
            leave("static", GroupMembershipOperation.DEFAULT);
        }

        /** Everything is owned, read and committed. */
        void settle(String when) throws Exception {
            for (Future<RecordMetadata> future : sent) {
                ledger.written(future.get());
            }
            sent.clear();
            ledger.await(when + ": owners", () -> ledger.isStable(members.keySet()));
            ledger.await(when + ": records", ledger::isAllReadAndCommitted);
            System.out.println(name + " " + when + ": " + ledger.owners());
        }

        void expectNoChange(String cause) {
            Map<String, Integer> now = ledger.changes();
            changesBefore.forEach((member, count) -> {
                if (!count.equals(now.get(member))) {
                    throw ledger.failure(cause + " made " + member + " rebalance");
                }
            });
        }

        void send() {
            for (int i = 0; i < RECORDS; i++) {
                String topic = topics.get(i % topics.size());
                int partition = i / topics.size() % (PARTITIONS / topics.size());
                sent.add(producer.send(new ProducerRecord<>(topic, partition, null, "letter " + i)));
            }
        }

        void join(String member, Map<String, String> settings, boolean isStatic) {
            members.put(member, new Member(this, member, settings, isStatic));
        }

        void leave(String member, GroupMembershipOperation how) throws Exception {
            members.remove(member).end(how);
        }

        void watch() {
            while (true) {
                try {
                    var committed = admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
                    ledger.committed(committed);
                    Thread.sleep(50);
                } catch (Exception e) {
                    ledger.note(e);
                }
            }
        }
    }

    /** A consumer with its own thread. */
    private static class Member implements ConsumerRebalanceListener, Runnable {
        final Group group;
        final String name;
        final KafkaConsumer<String, String> consumer;
        final Thread thread = new Thread(this);
        volatile GroupMembershipOperation end;

        Member(Group group, String name, Map<String, String> settings, boolean isStatic) {
            this.group = group;
            this.name = name;
            Properties all = settings();
            all.putAll(settings);
            all.put("group.id", group.name);
            all.put("client.id", group.name + "-" + name);
            all.put("enable.auto.commit", "false");
            all.put("auto.offset.reset", "earliest");
            if (isStatic) {
                all.put("group.instance.id", name);
            }
            consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
            thread.setDaemon(true);
            thread.start();
        }

        void end(GroupMembershipOperation how) throws InterruptedException {
            end = how;
            thread.join();
        }

        @Override
        public void run() {
            try {
                if (group.topics.size() > 1) {
                    consumer.subscribe(new SubscriptionPattern("pattern-[ab]"), this);
                } else {
                    consumer.subscribe(group.topics, this);
                }
                while (end == null) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        group.ledger.read(name, record);
                    }
                    try {
                        consumer.commitSync();
                    } catch (RebalanceInProgressException e) {
                        // The next poll continues, and returns the fetched records.
                    }
                }
                consumer.close(CloseOptions.groupMembershipOperation(end));
            } catch (Exception e) {
                group.ledger.fail(name, e);
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            group.ledger.assigned(name, partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            consumer.commitSync();
            group.ledger.revoked(name, partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            group.ledger.fail(name, new IllegalStateException("lost " + partitions));
        }
    }

    /** The observed state of a group's partitions, and the checks on it. */
    private static class Ledger {
        final String group;
        final Map<TopicPartition, String> owners = new HashMap<>();
        final Map<TopicPartition, Long> ends = new HashMap<>();
        final Map<TopicPartition, BitSet> read = new HashMap<>();
        final Map<TopicPartition, Long> committed = new HashMap<>();
        /** Partitions assigned to and revoked from each member. */
        final Map<String, Integer> changes = new TreeMap<>();
        RuntimeException failure;
        Exception note;

        Ledger(String group) {
            this.group = group;
        }

        synchronized void written(RecordMetadata record) {
            ends.merge(new TopicPartition(record.topic(), record.partition()), record.offset() + 1, Math::max);
        }

        synchronized void assigned(String member, Collection<TopicPartition> partitions) {
            changes.merge(member, partitions.size(), Integer::sum);
            for (TopicPartition partition : partitions) {
                String other = owners.put(partition, member);
                if (other != null) {
                    fail(member, new IllegalStateException(partition + " belongs to " + other + " too"));
                }
            }
            notifyAll();
        }

        synchronized void revoked(String member, Collection<TopicPartition> partitions) {
            changes.merge(member, partitions.size(), Integer::sum);
            for (TopicPartition partition : partitions) {
                if (!owners.remove(partition, member)) {
                    fail(member, new IllegalStateException(partition + " was not its own"));
                }
            }
            notifyAll();
        }

        synchronized void read(String member, ConsumerRecord<String, String> record) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            if (!member.equals(owners.get(partition))) {
                fail(member, new IllegalStateException("reads " + partition + " of " + owners.get(partition)));
            }
            read.computeIfAbsent(partition, any -> new BitSet()).set((int) record.offset());
            notifyAll();
        }

        synchronized void committed(Map<TopicPartition, OffsetAndMetadata> offsets) {
            committed.forEach((partition, before) -> {
                OffsetAndMetadata now = offsets.get(partition);
                if (now == null || now.offset() < before) {
                    fail("all", new IllegalStateException(partition + " went from " + before + " to " + now));
                }
            });
            offsets.forEach((partition, offset) -> committed.put(partition, offset.offset()));
            notifyAll();
        }

        synchronized boolean isStable(Set<String> members) {
            Map<String, Long> counts = owners.values().stream()
                .collect(Collectors.groupingBy(owner -> owner, Collectors.counting()));
            long share = PARTITIONS / members.size();
            return counts.keySet().equals(members) && counts.values().stream().allMatch(count -> count == share);
        }

        synchronized boolean isAllReadAndCommitted() {
            return ends.equals(committed) && ends.entrySet().stream().allMatch(end -> {
                BitSet offsets = read.get(end.getKey());
                return offsets != null && offsets.cardinality() == end.getValue();
            });
        }

        synchronized Set<TopicPartition> ownedBy(String member) {
            return owners.entrySet().stream()
                .filter(entry -> entry.getValue().equals(member))
                .map(Map.Entry::getKey)
                .collect(Collectors.toSet());
        }

        synchronized Map<String, Integer> changes() {
            return new TreeMap<>(changes);
        }

        synchronized Map<String, Set<String>> owners() {
            Map<String, Set<String>> byOwner = new TreeMap<>();
            owners.forEach((partition, owner) ->
                byOwner.computeIfAbsent(owner, any -> new TreeSet<>()).add(partition.toString()));
            return byOwner;
        }

        /** Errors of the watcher; the broker may be down. */
        synchronized void note(Exception e) {
            note = e;
        }

        synchronized void fail(String member, Exception cause) {
            if (failure == null) {
                failure = new IllegalStateException(group + ", member " + member, cause);
            }
            notifyAll();
        }

        synchronized RuntimeException failure(String what) {
            return new IllegalStateException(group + ": " + what + "; owners " + owners() + ", changes " + changes);
        }

        synchronized void await(String what, BooleanSupplier condition) throws InterruptedException {
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (failure == null && !condition.getAsBoolean()) {
                long left = deadline - System.currentTimeMillis();
                if (left <= 0) {
                    RuntimeException late = failure("never came true: " + what + "; ends " + ends + ", committed "
                        + committed + ", read " + read);
                    late.addSuppressed(note == null ? new Exception("the watcher met no problem") : note);
                    throw late;
                }
                wait(left);
            }
            if (failure != null) {
                throw failure;
            }
        }
    }
}
