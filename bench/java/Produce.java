import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes so many records with Kafka's own producer: Produce ADDRESS TOPIC RECORDS VALUES VALUE_SIZE CODEC KEYS TUNED TIMED.
 * Prints records, bytes of keys and values, seconds; then, if timed, the number of each record and the nanoseconds
 * that it took.
 */
public final class Produce {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int records = Integer.parseInt(args[2]);
        byte[][] values = values(Path.of(args[3]), Integer.parseInt(args[4]));
        long keys = Long.parseLong(args[6]);
        boolean timed = !args[8].equals("0");
        long[] times = new long[timed ? records : 0];
        ByteArraySerializer bytes = new ByteArraySerializer();
        long began = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties(args), bytes, bytes)) {
            LongAdder acknowledged = new LongAdder();
            AtomicReference<Exception> failure = new AtomicReference<>();
            for (int number = 0; number < records; number++) {
                byte[] key = keys > 0 ? ByteBuffer.allocate(8).putLong(number % keys).array() : null;
                ProducerRecord<byte[], byte[]> record =
                        new ProducerRecord<>(topic, key, values[number % values.length]);
                if (timed) {
                    long sent = System.nanoTime();
                    producer.send(record).get();
                    times[number] = System.nanoTime() - sent;
                    acknowledged.increment();
                } else {
                    producer.send(record, (metadata, error) -> {
                        if (error == null) {
                            acknowledged.increment();
                        } else {
                            failure.set(error);
                        }
                    });
                }
            }
            producer.flush();
            double seconds = (System.nanoTime() - began) / 1e9;
            if (acknowledged.sum() != records) {
                throw new IllegalStateException("not all records were acknowledged", failure.get());
            }
            long size = (long) records * (values[0].length + (keys > 0 ? 8 : 0));
            System.out.println(records + " " + size + " " + seconds);
        }
        StringBuilder text = new StringBuilder();
        for (int number = 0; number < times.length; number++) {
            text.append(number).append(' ').append(times[number]).append('\n');
        }
        System.out.print(text);
    }

    private static Properties properties(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("compression.type", args[5]);
        if (!args[7].equals("0")) {
            properties.put("batch.size", "1000000");
            // By default there is room for 32 of these.
            properties.put("buffer.memory", Integer.toString(128 << 20));
        }
        if (!args[8].equals("0")) {
            properties.put("linger.ms", "0");
        }
        return properties;
    }

    /** Cuts the file of values into pieces of one size. */
    private static byte[][] values(Path path, int size) throws Exception {
        byte[] text = Files.readAllBytes(path);
        byte[][] values = new byte[text.length / size][];
        for (int i = 0; i < values.length; i++) {
            values[i] = Arrays.copyOfRange(text, i * size, (i + 1) * size);
        }
        return values;
    }
}
