import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Producers and consumers of 0.10.0. */
final class Compat {
    static void addOperations(Map<String, Agent.Operation> operations) {
        operations.put("committed", Committed::committed);
    }

    static void configureProducer(Properties config) {
        config.put("retries", "5");
        config.put("max.in.flight.requests.per.connection", "1");
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(100);
    }
}
