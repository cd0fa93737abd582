import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Committed offsets of releases that ask for one partition at a time. */
final class Committed {
    static Object committed(JsonNode request) {
        Properties config = new Properties();
        config.put("group.id", request.get("group").asText());
        Map<Integer, Object> offsets = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, config)) {
            for (TopicPartition item : Agent.partitions(request)) {
                OffsetAndMetadata found = consumer.committed(item);
                offsets.put(item.partition(), found == null ? null : found.offset());
            }
        }
        return offsets;
    }
}
