import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.requestreply.ReplyingKafkaTemplate;
import org.springframework.kafka.support.TopicPartitionOffset;
import org.springframework.messaging.handler.annotation.SendTo;

/** Spring's request-reply: <code>Requests SINGLE WARM_UP MANY IN_FLIGHT serve|ask ADDRESS</code>. */
public class Requests {
    static final String REQUESTS = "quotes.requests";
    static final String REPLIES = "replies";

    public static void main(String[] args) throws Exception {
        if (args[4].equals("serve")) {
            serve(args[5]);
        } else {
            ask(args[5], Integer.parseInt(args[0]), Integer.parseInt(args[1]), Integer.parseInt(args[2]),
                    Integer.parseInt(args[3]));
        }
    }

    /** Sent at once, as ours: Kafka's default of 5 ms would decide the latency. */
    static DefaultKafkaProducerFactory<String, String> producers(String address) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(ProducerConfig.LINGER_MS_CONFIG, 0);
        return new DefaultKafkaProducerFactory<>(settings, new StringSerializer(), new StringSerializer());
    }

    static DefaultKafkaConsumerFactory<String, String> consumers(String address, String reset) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, reset);
        return new DefaultKafkaConsumerFactory<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void serve(String address) throws Exception {
        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        context.registerBean("kafkaListenerContainerFactory", ConcurrentKafkaListenerContainerFactory.class, () -> {
            ConcurrentKafkaListenerContainerFactory<String, String> factory = new ConcurrentKafkaListenerContainerFactory<>();
            factory.setConsumerFactory(consumers(address, "latest"));
            factory.setReplyTemplate(new KafkaTemplate<>(producers(address)));
            return factory;
        });
        context.register(Listening.class);
        context.registerBean(Quotes.class, Quotes::new);
        context.refresh();
        Thread.sleep(Long.MAX_VALUE);
    }

    @EnableKafka
    public static class Listening {}

    public static class Quotes {
        @KafkaListener(id = "spring-quotes", topics = REQUESTS)
        @SendTo
        public String quote(String request) {
            return request;
        }
    }

    static void ask(String address, int single, int warmUp, int many, int inFlight) throws Exception {
        ContainerProperties properties = new ContainerProperties(new TopicPartitionOffset(REPLIES, 0));
        KafkaMessageListenerContainer<String, String> container =
                new KafkaMessageListenerContainer<>(consumers(address, "latest"), properties);
        ReplyingKafkaTemplate<String, String, String> template =
                new ReplyingKafkaTemplate<>(producers(address), container);
        template.setDefaultReplyTimeout(Duration.ofSeconds(60));
        template.start();
        template.waitForAssignment(Duration.ofSeconds(60));
        String value = "x".repeat(100);
        // The service may not have its partition yet, and reads only what comes after.
        boolean isServed = false;
        while (!isServed) {
            try {
                template.sendAndReceive(new ProducerRecord<>(REQUESTS, "first", value), Duration.ofSeconds(1)).get();
                isServed = true;
            } catch (java.util.concurrent.ExecutionException exception) {
                // The next one.
            }
        }
        StringBuilder times = new StringBuilder();
        for (int number = 0; number < warmUp + single; number++) {
            long began = System.nanoTime();
            template.sendAndReceive(new ProducerRecord<>(REQUESTS, "key " + number % 1000, value)).get();
            if (number >= warmUp) {
                times.append(number).append(' ').append(System.nanoTime() - began).append('\n');
            }
        }
        Semaphore room = new Semaphore(inFlight);
        long began = System.nanoTime();
        for (int number = 0; number < many; number++) {
            room.acquire();
            template.sendAndReceive(new ProducerRecord<>(REQUESTS, "key " + number % 1000, value))
                    .whenComplete((reply, error) -> {
                        if (error != null) {
                            error.printStackTrace();
                            System.exit(1);
                        }
                        room.release();
                    });
        }
        room.acquire(inFlight);
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.println(many + " 0 " + seconds);
        System.out.print(times);
        System.out.flush();
        System.exit(0);
    }
}
