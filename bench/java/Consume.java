import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads so many records from the beginning of all partitions with the defaults of Kafka's own consumer: Consume ADDRESS
 * TOPIC PARTITIONS RECORDS POLL_RECORDS TIMED. Prints records, bytes of keys and values, seconds, polls; then, if timed,
 * the number of each record and when it was there.
 */
public final class Consume {
    public static void main(String[] args) {
        long began = System.nanoTime();
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        long wanted = Long.parseLong(args[3]);
        boolean timed = !args[5].equals("0");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        if (!args[4].equals("0")) {
            properties.put("max.poll.records", args[4]);
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        long records = 0;
        long size = 0;
        long polls = 0;
        StringBuilder times = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.assign(IntStream.range(0, partitions).mapToObj(i -> new TopicPartition(topic, i)).toList());
            while (records < wanted) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(20));
                if (polled.isEmpty()) {
                    throw new IllegalStateException("nothing comes any more after " + records + " records");
                }
                Instant now = timed ? Instant.now() : null;
                polls++;
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    records++;
                    size += (record.key() == null ? 0 : record.key().length) + record.value().length;
                    if (timed) {
                        long nanos = now.getEpochSecond() * 1_000_000_000L + now.getNano();
                        long number = ByteBuffer.wrap(record.value()).getLong();
                        times.append(Long.toUnsignedString(number)).append(' ').append(nanos).append('\n');
                    }
                }
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            System.out.println(records + " " + size + " " + seconds + " " + polls);
            System.out.print(times);
        }
    }
}
