import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
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
import org.springframework.kafka.requestreply.RequestReplyFuture;
import org.springframework.kafka.support.TopicPartitionOffset;
import org.springframework.messaging.handler.annotation.SendTo;

/**
 * Spring's two sides of request-reply.
 *
 * <pre>
 * RequestReply serve ADDRESS TOPIC                            answers until it is killed
 * RequestReply ask ADDRESS TOPIC REPLIES COUNT [PARTITION]    sends requests and prints the replies in order
 * </pre>
 */
public class RequestReply {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("serve")) {
            serve(args[1], args[2]);
        } else {
            ask(args[1], args[2], args[3], Integer.parseInt(args[4]), args.length > 5 ? Integer.parseInt(args[5]) : -1);
        }
    }

    static DefaultKafkaProducerFactory<String, String> producers(String address) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        return new DefaultKafkaProducerFactory<>(settings, new StringSerializer(), new StringSerializer());
    }

    static DefaultKafkaConsumerFactory<String, String> consumers(String address, String reset) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, reset);
        return new DefaultKafkaConsumerFactory<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void serve(String address, String topic) throws Exception {
        System.setProperty("requests", topic);
        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        context.registerBean("kafkaListenerContainerFactory", ConcurrentKafkaListenerContainerFactory.class, () -> {
            ConcurrentKafkaListenerContainerFactory<String, String> factory = new ConcurrentKafkaListenerContainerFactory<>();
            factory.setConsumerFactory(consumers(address, "earliest"));
            factory.setReplyTemplate(new KafkaTemplate<>(producers(address)));
            return factory;
        });
        context.register(Listening.class);
        context.registerBean(Quotes.class, Quotes::new);
        context.refresh();
        System.out.println("serving");
        Thread.sleep(Long.MAX_VALUE);
    }

    @EnableKafka
    public static class Listening {}

    public static class Quotes {
        @KafkaListener(id = "quotes", topics = "${requests}")
        @SendTo
        public String quote(String request) {
            return "Spring quotes " + request;
        }
    }

    static void ask(String address, String topic, String replies, int count, int partition) throws Exception {
        ContainerProperties properties = partition < 0
                ? new ContainerProperties(replies)
                : new ContainerProperties(new TopicPartitionOffset(replies, partition));
        properties.setGroupId("spring-replies");
        KafkaMessageListenerContainer<String, String> container =
                new KafkaMessageListenerContainer<>(consumers(address, "latest"), properties);
        ReplyingKafkaTemplate<String, String, String> template =
                new ReplyingKafkaTemplate<>(producers(address), container);
        template.setDefaultReplyTimeout(Duration.ofSeconds(60));
        template.start();
        if (!template.waitForAssignment(Duration.ofSeconds(60))) {
            throw new IllegalStateException("no assignment");
        }
        List<RequestReplyFuture<String, String, String>> futures = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            futures.add(template.sendAndReceive(new ProducerRecord<>(topic, "k" + number % 7, "share " + number)));
        }
        for (RequestReplyFuture<String, String, String> future : futures) {
            ConsumerRecord<String, String> reply = future.get(60, TimeUnit.SECONDS);
            System.out.println("reply: " + reply.value());
        }
        template.stop();
        System.out.println("done");
        System.exit(0);
    }
}
