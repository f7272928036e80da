import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * Writes groups and what Kafka's own assignors decide for them, for tests/golden/assignors.txt.
 *
 * Run by `cargo xtask golden`. The first argument is how many groups, if not as many as the tests have.
 *
 * A group is a paragraph of lines. `topic` has a name and for each partition the racks of its replicas. `member` has an id,
 * an instance id, a rack, a generation, topics, and owned partitions. Then come the assignments of `range` and
 * `roundrobin`, and what `sticky` and `cooperative` come to: partitions that moved from their owner to another member,
 * partitions that are not in the rack of their member, and the partitions of each member. Nothing is `-`.
 *
 * The first groups have the bytes too: the subscriptions of members that use `sticky` and `cooperative-sticky`, and what
 * their leader sends them if it uses `range`.
 */
public class Assignors {
    private static final int GROUPS = 400;
    private static final int GROUPS_WITH_BYTES = 40;

    private final Random random;
    private final TreeMap<String, List<PartitionInfo>> topics = new TreeMap<>();
    private final Map<String, Member> members = new LinkedHashMap<>();
    private final boolean racks;

    private static final class Member {
        String instance;
        String rack;
        int generation = -1;
        Set<String> topics = new TreeSet<>();
        List<TopicPartition> owned = new ArrayList<>();
    }

    public static void main(String[] arguments) {
        int groups = arguments.length > 0 ? Integer.parseInt(arguments[0]) : GROUPS;
        StringBuilder text = new StringBuilder();
        for (int seed = 0; seed < groups; seed++) {
            Assignors group = new Assignors(seed);
            group.write(text);
            if (seed < GROUPS_WITH_BYTES) {
                group.writeBytes(text);
            }
            System.out.println(text);
            text.setLength(0);
        }
    }

    private Assignors(int seed) {
        random = new Random(seed);
        racks = random.nextInt(3) == 0;
        boolean large = random.nextInt(16) == 0;
        int counts = random.nextInt(3) == 0 ? 1 : 0;
        int same = 1 + random.nextInt(large ? 20 : 8);
        for (int i = 1 + random.nextInt(large ? 12 : 5); i > 0; i--) {
            addTopic("t" + i, counts == 1 ? same : 1 + random.nextInt(large ? 20 : 8));
        }
        for (int i = 1 + random.nextInt(large ? 20 : 7); i > 0; i--) {
            addMember();
        }
        subscribe();
        history();
    }

    private void addTopic(String name, int partitions) {
        List<PartitionInfo> infos = new ArrayList<>();
        int replicas = 1 + random.nextInt(3);
        for (int i = 0; i < partitions; i++) {
            infos.add(partition(name, i, replicas));
        }
        topics.put(name, infos);
    }

    private PartitionInfo partition(String topic, int number, int replicas) {
        Node[] nodes = new Node[replicas];
        int first = random.nextInt(3);
        for (int i = 0; i < replicas; i++) {
            int broker = (first + i) % 3;
            nodes[i] = new Node(broker, "host", 9092, racks ? "r" + broker : null);
        }
        return new PartitionInfo(topic, number, nodes[0], nodes, nodes);
    }

    private String addMember() {
        Member member = new Member();
        String id = "m" + (100 + random.nextInt(900));
        if (members.containsKey(id)) {
            return addMember();
        }
        member.instance = random.nextInt(5) == 0 ? "i" + random.nextInt(10) + id : null;
        member.rack = racks && random.nextInt(8) != 0 ? "r" + random.nextInt(random.nextInt(6) == 0 ? 5 : 3) : null;
        members.put(id, member);
        return id;
    }

    /** All to the same; or each to what it likes; or as a chain, in which each shares a topic with the next. */
    private void subscribe() {
        List<String> names = new ArrayList<>(topics.keySet());
        int kind = random.nextInt(5);
        int place = 0;
        for (Member member : members.values()) {
            if (kind < 2) {
                member.topics.addAll(names);
            } else if (kind == 2) {
                member.topics.add(names.get(place % names.size()));
                member.topics.add(names.get((place + 1) % names.size()));
                place++;
            } else {
                subscribeAtWill(member);
            }
        }
        if (kind == 0) {
            members.values().forEach(member -> member.topics.add("missing"));
        }
    }

    private void subscribeAtWill(Member member) {
        topics.keySet().stream().filter(topic -> random.nextInt(2) == 0).forEach(member.topics::add);
        // Nobody subscribes to nothing: Kafka's sticky assignors may give partitions even to such a member.
        if (member.topics.isEmpty()) {
            member.topics.add(random.nextInt(4) == 0 ? "missing" : topics.firstKey());
        }
    }

    /** What happened before: nothing; or an assignment, and then a change or several; or anything. */
    private void history() {
        int kind = random.nextInt(8);
        if (kind == 0) {
            return;
        }
        if (kind == 1) {
            claimAtWill();
            return;
        }
        int rounds = 1 + random.nextInt(3);
        for (int generation = 1; generation <= rounds; generation++) {
            Map<String, List<TopicPartition>> assigned = new StickyAssignor().assignPartitions(layout(), subscriptions(true));
            int current = generation;
            assigned.forEach((id, partitions) -> {
                // Somebody may have missed this generation, and still claim what it had before.
                if (random.nextInt(20) != 0) {
                    members.get(id).owned = sorted(partitions);
                    members.get(id).generation = current;
                }
            });
            change();
        }
    }

    private void change() {
        switch (random.nextInt(7)) {
            case 0 -> addLike(addMember());
            case 1 -> remove();
            case 2 -> {
                addLike(addMember());
                addLike(addMember());
                remove();
            }
            case 3 -> {
                String name = "u" + random.nextInt(100);
                if (!topics.containsKey(name)) {
                    addTopic(name, 1 + random.nextInt(8));
                    boolean all = random.nextBoolean();
                    members.values().stream().filter(member -> all || random.nextBoolean()).forEach(member -> member.topics.add(name));
                }
            }
            case 4 -> {
                List<PartitionInfo> grown = topics.firstEntry().getValue();
                for (int i = random.nextInt(6); i > 0; i--) {
                    grown.add(partition(topics.firstKey(), grown.size(), 2));
                }
            }
            case 5 -> subscribeAtWill(members.values().iterator().next());
            default -> { }
        }
    }

    /** A new member subscribes as some other does. */
    private void addLike(String id) {
        List<Member> others = new ArrayList<>(members.values());
        others.remove(members.get(id));
        members.get(id).topics.addAll(others.get(random.nextInt(others.size())).topics);
    }

    private void remove() {
        if (members.size() > 1) {
            List<String> ids = new ArrayList<>(members.keySet());
            members.remove(ids.get(random.nextInt(ids.size())));
        }
    }

    /** Some claim everything, some the same as others, some in an old generation. */
    private void claimAtWill() {
        int zeal = 1 + random.nextInt(4);
        for (Member member : members.values()) {
            member.generation = random.nextInt(3);
            for (String topic : topics.keySet()) {
                for (PartitionInfo info : topics.get(topic)) {
                    if (member.topics.contains(topic) && random.nextInt(6) < zeal) {
                        member.owned.add(new TopicPartition(topic, info.partition()));
                    }
                }
            }
        }
        // Each partition is claimed once in a generation, as in groups whose members tell the truth.
        Set<String> claimed = new LinkedHashSet<>();
        for (Member member : members.values()) {
            member.owned.removeIf(partition -> !claimed.add(member.generation + " " + partition));
        }
    }

    private Map<String, List<PartitionInfo>> layout() {
        Set<String> wanted = members.values().stream().flatMap(member -> member.topics.stream()).collect(Collectors.toSet());
        Map<String, List<PartitionInfo>> layout = new HashMap<>();
        topics.forEach((topic, partitions) -> {
            if (wanted.contains(topic)) {
                layout.put(topic, partitions);
            }
        });
        return layout;
    }

    private Map<String, Subscription> subscriptions(boolean sticky) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.forEach((id, member) -> {
            AbstractStickyAssignor own = sticky ? new StickyAssignor() : new CooperativeStickyAssignor();
            if (member.generation >= 0) {
                own.onAssignment(new Assignment(member.owned), groupMetadata(id, member.generation));
            }
            Subscription subscription = new Subscription(new ArrayList<>(member.topics), own.subscriptionUserData(member.topics),
                member.owned, member.generation, Optional.ofNullable(member.rack));
            subscription.setGroupInstanceId(Optional.ofNullable(member.instance));
            subscriptions.put(id, subscription);
        });
        return subscriptions;
    }

    @SuppressWarnings("removal") // Its constructors are to go, but nothing else makes one without a consumer.
    private static ConsumerGroupMetadata groupMetadata(String member, int generation) {
        return new ConsumerGroupMetadata("group", generation, member, Optional.empty());
    }

    private void write(StringBuilder text) {
        topics.forEach((topic, partitions) -> text.append("topic ").append(topic).append(' ').append(
            partitions.stream().map(Assignors::racksOf).collect(Collectors.joining(" "))).append('\n'));
        members.forEach((id, member) -> text.append("member ").append(id)
            .append(' ').append(orNothing(member.instance))
            .append(' ').append(orNothing(member.rack))
            .append(' ').append(member.generation)
            .append(' ').append(orNothing(String.join(",", member.topics)))
            .append(' ').append(partitions(member.owned)).append('\n'));
        writeAssignment(text, "range", new RangeAssignor());
        writeAssignment(text, "roundrobin", new RoundRobinAssignor());
        writeFacts(text, "sticky", new StickyAssignor().assignPartitions(layout(), subscriptions(true)));
        writeFacts(text, "cooperative", new CooperativeStickyAssignor().assignPartitions(layout(), subscriptions(false)));
    }

    private void writeBytes(StringBuilder text) {
        writeSubscriptions(text, "stickybytes", subscriptions(true));
        writeSubscriptions(text, "cooperativebytes", subscriptions(false));
        Map<String, List<TopicPartition>> assignment = new RangeAssignor().assignPartitions(layout(), subscriptions(false));
        text.append("rangebytes");
        members.keySet().forEach(id -> text.append(' ')
            .append(hex(ConsumerProtocol.serializeAssignment(new Assignment(sorted(assignment.get(id)))))));
        text.append('\n');
    }

    private void writeSubscriptions(StringBuilder text, String name, Map<String, Subscription> subscriptions) {
        text.append(name);
        members.keySet().forEach(id -> text.append(' ').append(hex(ConsumerProtocol.serializeSubscription(subscriptions.get(id)))));
        text.append('\n');
    }

    private static List<TopicPartition> sorted(List<TopicPartition> partitions) {
        List<TopicPartition> sorted = new ArrayList<>(partitions);
        sorted.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        return sorted;
    }

    private static String hex(ByteBuffer buffer) {
        return HexFormat.of().formatHex(Utils.toArray(buffer));
    }

    private void writeAssignment(StringBuilder text, String name, AbstractPartitionAssignor assignor) {
        Map<String, List<TopicPartition>> assignment = assignor.assignPartitions(layout(), subscriptions(false));
        text.append(name);
        members.keySet().forEach(id -> text.append(' ').append(partitions(assignment.get(id))));
        text.append('\n');
    }

    private void writeFacts(StringBuilder text, String name, Map<String, List<TopicPartition>> assignment) {
        Map<TopicPartition, String> owners = owners();
        int moved = 0;
        int far = 0;
        for (String id : members.keySet()) {
            for (TopicPartition partition : assignment.get(id)) {
                String rack = members.get(id).rack;
                moved += owners.getOrDefault(partition, id).equals(id) ? 0 : 1;
                far += rack == null || racksOf(topics.get(partition.topic()).get(partition.partition())).contains(rack) ? 0 : 1;
            }
        }
        text.append(name).append(' ').append(moved).append(' ').append(far);
        members.keySet().forEach(id -> text.append(' ').append(assignment.get(id).size()));
        text.append('\n');
    }

    /** Of those who claim a partition and may have it, who did so in the newest generation; nobody if that is two. */
    private Map<TopicPartition, String> owners() {
        Map<TopicPartition, String> owners = new HashMap<>();
        members.forEach((id, member) -> member.owned.stream().filter(partition -> member.topics.contains(partition.topic())).forEach(partition -> {
            String other = owners.get(partition);
            if (other == null || members.get(other).generation < member.generation) {
                owners.put(partition, id);
            }
        }));
        return owners;
    }

    private static String racksOf(PartitionInfo info) {
        List<String> racks = new ArrayList<>();
        for (Node node : info.replicas()) {
            racks.add(orNothing(node.rack()));
        }
        return String.join(",", new TreeSet<>(racks));
    }

    private static String partitions(List<TopicPartition> partitions) {
        TreeMap<String, TreeSet<Integer>> topics = new TreeMap<>();
        partitions.forEach(one -> topics.computeIfAbsent(one.topic(), topic -> new TreeSet<>()).add(one.partition()));
        return orNothing(topics.entrySet().stream().map(topic -> topic.getKey() + ":"
            + topic.getValue().stream().map(String::valueOf).collect(Collectors.joining(","))).collect(Collectors.joining(";")));
    }

    private static String orNothing(String text) {
        return text == null || text.isEmpty() ? "-" : text;
    }
}
