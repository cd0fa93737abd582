import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Messages of 0.10.0, with a timestamp and without headers. */
final class Records {
    static ProducerRecord<String, String> made(String topic, JsonNode record) {
        return new ProducerRecord<>(
                topic,
                record.get("partition").asInt(),
                record.get("timestamp").isNull() ? null : record.get("timestamp").asLong(),
                Agent.text(record.get("key")),
                Agent.text(record.get("value")));
    }

    static List<Object> headers(ConsumerRecord<String, String> record) {
        return Collections.emptyList();
    }
}
