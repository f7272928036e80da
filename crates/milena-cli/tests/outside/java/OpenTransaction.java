import java.util.Properties;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes a record to partition 0 in a transaction, prints its offset, and commits after a line of input.
 *
 * Run with: cargo xtask kafka tool crates/milena-cli/tests/outside/java/OpenTransaction.java HOST:PORT TOPIC ID
 */
public class OpenTransaction {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[2]);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            var record = new ProducerRecord<>(arguments[1], 0, "key", "written in a transaction");
            System.out.println("open at " + producer.send(record).get().offset());
            if (System.in.read() < 0) {
                throw new IllegalStateException("nobody lets the transaction end");
            }
            producer.commitTransaction();
            System.out.println("committed");
        }
    }
}
