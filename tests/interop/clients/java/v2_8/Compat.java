import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

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

    static ProducerRecord<String, String> producerRecord(String topic, JsonNode record) {
        Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
        ProducerRecord<String, String> made = new ProducerRecord<>(
                topic,
                record.get("partition").asInt(),
                timestamp,
                Agent.text(record.get("key")),
                Agent.text(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            String value = Agent.text(header.get(1));
            made.headers().add(
                    header.get(0).asText(), value == null ? null : value.getBytes(StandardCharsets.UTF_8));
        }
        return made;
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(Duration.ofMillis(100));
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

    private static Object committed(JsonNode request) {
        Properties config = new Properties();
        config.put("group.id", request.get("group").asText());
        Map<Integer, Object> offsets = new HashMap<>();
        HashSet<TopicPartition> wanted = new HashSet<>();
        request.get("partitions").forEach(
                number -> wanted.add(new TopicPartition(request.get("topic").asText(), number.asInt())));
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, config)) {
            consumer.committed(wanted).forEach(
                    (item, found) -> offsets.put(item.partition(), found == null ? null : found.offset()));
        }
        return offsets;
    }
}
