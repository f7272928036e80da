package org.apache.kafka.clients.producer.internals;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;

/**
 * Writes where Kafka's own partitioners put records, for tests/golden/partitions.txt.
 *
 * Run by `cargo xtask golden`; in Kafka's package because the numbers that it takes for random can only be given there.
 * Columns are separated by tabs, lists by spaces; the first says what the line is:
 *
 * murmur2: a key in hexadecimal, its hash, and its partition for each of the counts 1 2 3 6 7 12 50 100 1000.
 * choose: how many partitions, those with a leader, those whose load is known, their load, random numbers, and the
 *   partition for each.
 * stay: the batch size, bytes that are appended, with ! if the batch is full then, and whether the partition is left.
 * round-robin: how many partitions, those with a leader, and where records go one after the other.
 */
public class PartitionVectors {
    private static final int[] COUNTS = {1, 2, 3, 6, 7, 12, 50, 100, 1000};
    private static final Node NODE = new Node(0, "localhost", 9092);
    private static final Random RANDOM = new Random(20);

    public static void main(String[] arguments) {
        for (byte[] key : keys()) {
            String partitions = Arrays.stream(COUNTS)
                .mapToObj(count -> "" + BuiltInPartitioner.partitionForKey(key, count))
                .collect(Collectors.joining(" "));
            print("murmur2", HexFormat.of().formatHex(key), "" + Utils.murmur2(key), partitions);
        }
        choose(1, List.of(0), List.of(), List.of());
        choose(3, List.of(0, 1, 2), List.of(), List.of());
        choose(3, List.of(0, 2), List.of(), List.of());
        choose(3, List.of(), List.of(), List.of());
        choose(3, List.of(0, 1, 2), List.of(0, 1, 2), List.of(0, 3, 1));
        choose(3, List.of(0, 1, 2), List.of(0, 1, 2), List.of(5, 5, 5));
        choose(3, List.of(0, 1, 2), List.of(0, 2), List.of(7, 1));
        choose(5, List.of(0, 1, 2, 4), List.of(1, 2, 4), List.of(0, 0, 9));
        choose(4, List.of(0, 1, 2, 3), List.of(3, 1), List.of(2, 2));
        choose(4, List.of(0, 1, 2, 3), List.of(2), List.of(6));
        choose(8, IntStream.range(0, 8).boxed().toList(), IntStream.range(0, 8).boxed().toList(),
            List.of(100, 0, 50, 3, 3, 3, 99, 1));
        stay(100, "10 10 10!", "99! 1! 100! 100!", "100 99 1 50! 50!", "199 1 200 201", "50 49 1! 100", "0! 0! 100!");
        stay(1, "1! 1! 1 1 1!", "2 2 2", "0 0! 1!");
        roundRobin(3, List.of(0, 1, 2));
        roundRobin(3, List.of(1, 2));
        roundRobin(4, List.of());
        roundRobin(1, List.of(0));
        roundRobin(5, List.of(4));
        roundRobin(6, List.of(0, 2, 3, 5));
    }

    private static List<byte[]> keys() {
        List<byte[]> keys = new ArrayList<>();
        for (String text : List.of("", "0", "a", "ab", "abc", "abcd", "abcde", "21", "foobar", "a-little-bit-long-string",
                "a-little-bit-longer-string", "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", "tenant:entity",
                "\u00e9\u6f22\ud83e\udd80", "key with spaces", "\0", "\0\0\0\0")) {
            keys.add(text.getBytes(StandardCharsets.UTF_8));
        }
        for (int length = 0; length < 70; length++) {
            byte[] key = new byte[length];
            RANDOM.nextBytes(key);
            keys.add(key);
        }
        for (int number = 0; number < 30; number++) {
            keys.add(("customer-" + number).getBytes(StandardCharsets.UTF_8));
        }
        byte[] high = new byte[7];
        Arrays.fill(high, (byte) 0xff);
        keys.add(high);
        return keys;
    }

    private static void choose(int count, List<Integer> available, List<Integer> ids, List<Integer> queued) {
        List<Integer> randoms = new ArrayList<>(IntStream.range(0, 30).boxed().toList());
        randoms.addAll(List.of(Integer.MAX_VALUE, Integer.MIN_VALUE, -1, -7));
        RANDOM.ints(20).forEach(randoms::add);
        Cluster cluster = cluster(count, available);
        List<Integer> chosen = new ArrayList<>();
        for (int random : randoms) {
            BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", 100) {
                @Override
                int randomPartition() {
                    return Utils.toPositive(random);
                }
            };
            if (!ids.isEmpty()) {
                // Kafka's arrays have room for all partitions, and count those that are filled.
                int[] sizes = Arrays.copyOf(queued.stream().mapToInt(one -> one).toArray(), count);
                int[] partitions = Arrays.copyOf(ids.stream().mapToInt(one -> one).toArray(), count);
                partitioner.updatePartitionLoadStats(sizes, partitions, ids.size());
            }
            chosen.add(partitioner.peekCurrentPartitionInfo(cluster).partition());
        }
        print("choose", "" + count, list(available), list(ids), list(queued), list(randoms), list(chosen));
    }

    private static void stay(int batchSize, String... histories) {
        for (String history : histories) {
            Cluster cluster = cluster(3, List.of(0, 1, 2));
            BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", batchSize);
            List<String> left = new ArrayList<>();
            for (String step : history.split(" ")) {
                BuiltInPartitioner.StickyPartitionInfo before = partitioner.peekCurrentPartitionInfo(cluster);
                int bytes = Integer.parseInt(step.replace("!", ""));
                partitioner.updatePartitionInfo(before, bytes, cluster, step.endsWith("!"));
                left.add(partitioner.isPartitionChanged(before) ? "left" : "stayed");
            }
            print("stay", "" + batchSize, history, String.join(" ", left));
        }
    }

    private static void roundRobin(int count, List<Integer> available) {
        RoundRobinPartitioner partitioner = new RoundRobinPartitioner();
        Cluster cluster = cluster(count, available);
        List<Integer> chosen = new ArrayList<>();
        for (int record = 0; record < 2 * count + 1; record++) {
            chosen.add(partitioner.partition("t", null, null, null, null, cluster));
            // What other topics get does not count.
            partitioner.partition("other", null, null, null, null, cluster);
        }
        print("round-robin", "" + count, list(available), list(chosen));
    }

    private static Cluster cluster(int count, List<Integer> available) {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : List.of("t", "other")) {
            for (int partition = 0; partition < count; partition++) {
                partitions.add(partition(topic, partition, available.contains(partition)));
            }
        }
        return new Cluster("c", List.of(NODE), partitions, Set.of(), Set.of());
    }

    private static PartitionInfo partition(String topic, int partition, boolean hasLeader) {
        Node[] replicas = {NODE};
        return new PartitionInfo(topic, partition, hasLeader ? NODE : null, replicas, replicas);
    }

    private static String list(List<Integer> numbers) {
        return numbers.stream().map(String::valueOf).collect(Collectors.joining(" "));
    }

    private static void print(String... columns) {
        System.out.println(String.join("\t", columns));
    }
}
