import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** Producers and consumers of 0.11, the first release with record batches, headers and idempotent producers. */
final class Compat {
    static void addOperations(Map<String, Agent.Operation> operations) {
        operations.put("committed", Committed::committed);
        operations.put("offsets", Compat::offsets);
        Transactions.addOperations(operations);
    }

    static void configureProducer(Properties config) {
        config.put("enable.idempotence", "true");
        config.put("retries", "5");
        config.put("max.in.flight.requests.per.connection", "1");
    }

    static void sendOffsets(
            KafkaProducer<String, String> producer, Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<String, String> consumer, String group) {
        producer.sendOffsetsToTransaction(offsets, group);
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(100);
    }

    private static Object offsets(JsonNode request) {
        Map<Integer, Object> offsets = new HashMap<>();
        String at = request.get("at").asText();
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, new Properties())) {
            if (at.equals("earliest")) {
                consumer.beginningOffsets(Agent.partitions(request)).forEach(
                        (item, offset) -> offsets.put(item.partition(), offset));
            } else if (at.equals("latest")) {
                consumer.endOffsets(Agent.partitions(request)).forEach(
                        (item, offset) -> offsets.put(item.partition(), offset));
            } else {
                Map<TopicPartition, Long> times = new HashMap<>();
                Agent.partitions(request).forEach(item -> times.put(item, Long.parseLong(at)));
                for (Map.Entry<TopicPartition, OffsetAndTimestamp> entry : consumer.offsetsForTimes(times).entrySet()) {
                    offsets.put(entry.getKey().partition(), entry.getValue() == null ? -1 : entry.getValue().offset());
                }
            }
        }
        return offsets;
    }
}
