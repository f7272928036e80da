import java.lang.reflect.Field;
import java.util.Collection;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.MetricNameTemplate;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.clients.producer.internals.SenderMetricsRegistry;

/**
 * Writes the metrics of a Java producer, for tests/golden/producer_metrics.txt: group, name and tags.
 *
 * Run by `cargo xtask golden`. Those of brokers come with connections, and so are not among them.
 */
public class ProducerMetrics {
    public static void main(String[] arguments) throws Exception {
        TreeSet<String> lines = new TreeSet<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", "127.0.0.1:9092", "client.id", "p");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (MetricName metric : producer.metrics().keySet()) {
                add(lines, metric.group(), metric.name(), metric.tags().keySet());
            }
            Field field = KafkaProducer.class.getDeclaredField("metrics");
            field.setAccessible(true);
            Metrics metrics = (Metrics) field.get(producer);
            // Those of topics are only templates until something is sent.
            Metrics fresh = new Metrics(metrics.config());
            for (MetricNameTemplate template : new SenderMetricsRegistry(fresh).allTemplates()) {
                add(lines, template.group(), template.name(), template.tags());
            }
        }
        lines.forEach(System.out::println);
    }

    /** Not how many metrics there are, nor which version of Kafka it is. */
    private static void add(Collection<String> lines, String group, String name, Collection<String> tags) {
        if (group.startsWith("producer-")) {
            lines.add(group + "\t" + name + "\t" + tags.stream().collect(Collectors.joining(" ")));
        }
    }
}
