import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** Producers and consumers from 2.8 on. */
final class Compat {
    static void addOperations(Map<String, Agent.Operation> operations) {
        operations.put("committed", Compat::committed);
        Transactions.addOperations(operations);
    }

    static void configureProducer(Properties config) {
        config.put("enable.idempotence", "true");
    }

    static void sendOffsets(
            KafkaProducer<String, String> producer, Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<String, String> consumer, String group) {
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(Duration.ofMillis(100));
    }

    private static Object committed(JsonNode request) {
        Properties config = new Properties();
        config.put("group.id", request.get("group").asText());
        Map<Integer, Object> offsets = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, config)) {
            consumer.committed(new HashSet<>(Agent.partitions(request))).forEach(
                    (item, found) -> offsets.put(item.partition(), found == null ? null : found.offset()));
        }
        return offsets;
    }
}
