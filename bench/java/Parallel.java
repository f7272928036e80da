import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Handles so many records by key with Confluent's Parallel Consumer: Parallel ADDRESS TOPIC RECORDS TASK WORK_MS. Prints
 * records, bytes, and the seconds from the first call to the last.
 */
public final class Parallel {
    /** As many threads as there are keys; with nothing to wait for its default is better. */
    private static final int THREADS = 1000;

    public static void main(String[] args) throws InterruptedException {
        String topic = args[1];
        long wanted = Long.parseLong(args[2]);
        String task = args[3];
        long workMs = Long.parseLong(args[4]);
        boolean copies = task.startsWith("copy");
        boolean once = task.equals("copy-once");
        AtomicLong began = new AtomicLong();
        AtomicLong done = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        Runnable count = () -> {
            if (done.incrementAndGet() == wanted) {
                all.countDown();
            }
        };
        var options = ParallelConsumerOptions.<String, byte[]>builder()
                .ordering(ProcessingOrder.KEY)
                .consumer(consumer(args[0], task));
        if (workMs > 0) {
            options.maxConcurrency(THREADS);
        }
        if (copies) {
            options.producer(producer(args[0], once));
        }
        if (once) {
            options.commitMode(CommitMode.PERIODIC_TRANSACTIONAL_PRODUCER).commitInterval(Duration.ofMillis(100));
        }
        var processor = ParallelStreamProcessor.createEosStreamProcessor(options.build());
        processor.subscribe(List.of(topic));
        if (copies) {
            processor.pollAndProduce(
                    context -> {
                        began.compareAndSet(0, System.nanoTime());
                        return new ProducerRecord<>(topic + "-copies", context.key(), context.value());
                    },
                    copied -> count.run());
        } else {
            processor.poll(context -> {
                began.compareAndSet(0, System.nanoTime());
                work(workMs);
                count.run();
            });
        }
        all.await();
        double seconds = (System.nanoTime() - began.get()) / 1e9;
        System.out.println(wanted + " " + wanted * 100 + " " + seconds + " 0");
        System.out.flush();
        // How long it takes to end is not what is measured.
        Runtime.getRuntime().halt(0);
    }

    private static void work(long milliseconds) {
        try {
            if (milliseconds > 0) {
                Thread.sleep(milliseconds);
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static KafkaConsumer<String, byte[]> consumer(String address, String task) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("group.id", "parallel-" + task + "-" + ProcessHandle.current().pid());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "10000");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new ByteArrayDeserializer());
    }

    private static KafkaProducer<String, byte[]> producer(String address, boolean once) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("batch.size", "100000");
        properties.put("linger.ms", "5");
        if (once) {
            properties.put("transactional.id", "parallel-" + ProcessHandle.current().pid());
        }
        return new KafkaProducer<>(properties, new StringSerializer(), new ByteArraySerializer());
    }
}
