import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Producers and consumers of 0.10.0: messages with a timestamp and without headers. */
final class Compat {
    static void addOperations(Map<String, Agent.Operation> operations) {
        operations.put("committed", Compat::committed);
    }

    static void configureProducer(Properties config) {
        config.put("retries", "5");
        config.put("max.in.flight.requests.per.connection", "1");
    }

    static ProducerRecord<String, String> producerRecord(String topic, JsonNode record) {
        return new ProducerRecord<>(
                topic,
                record.get("partition").asInt(),
                record.get("timestamp").isNull() ? null : record.get("timestamp").asLong(),
                Agent.text(record.get("key")),
                Agent.text(record.get("value")));
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(100);
    }

    static List<Object> headers(ConsumerRecord<String, String> record) {
        return Collections.emptyList();
    }

    private static Object committed(JsonNode request) {
        Properties config = new Properties();
        config.put("group.id", request.get("group").asText());
        Map<Integer, Object> offsets = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, config)) {
            for (JsonNode number : request.get("partitions")) {
                OffsetAndMetadata found =
                        consumer.committed(new TopicPartition(request.get("topic").asText(), number.asInt()));
                offsets.put(number.asInt(), found == null ? null : found.offset());
            }
        }
        return offsets;
    }
}
