import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** Records with headers, of 0.11 and all later releases. */
final class Records {
    static ProducerRecord<String, String> made(String topic, JsonNode record) {
        ProducerRecord<String, String> made = new ProducerRecord<>(
                topic,
                record.get("partition").asInt(),
                record.get("timestamp").isNull() ? null : record.get("timestamp").asLong(),
                Agent.text(record.get("key")),
                Agent.text(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            String value = Agent.text(header.get(1));
            made.headers().add(
                    header.get(0).asText(), value == null ? null : value.getBytes(StandardCharsets.UTF_8));
        }
        return made;
    }

    static List<Object> headers(ConsumerRecord<String, String> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            byte[] value = header.value();
            headers.add(Arrays.asList(
                    header.key(), value == null ? null : new String(value, StandardCharsets.UTF_8)));
        }
        return headers;
    }
}
