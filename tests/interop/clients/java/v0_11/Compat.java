import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** Producers and consumers of 0.11, the first release with record batches, headers and idempotent producers. */
final class Compat {
    static void addOperations(Map<String, Agent.Operation> operations) {
        operations.put("committed", Compat::committed);
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

    static ProducerRecord<String, String> producerRecord(String topic, JsonNode record) {
        ProducerRecord<String, String> made = new ProducerRecord<>(
                topic,
                record.get("partition").asInt(),
                record.get("timestamp").isNull() ? null : record.get("timestamp").asLong(),
                Agent.text(record.get("key")),
                Agent.text(record.get("value")));
        for (JsonNode header : record.get("headers")) {
            made.headers().add(header.get(0).asText(), header.get(1).asText().getBytes(StandardCharsets.UTF_8));
        }
        return made;
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(100);
    }

    static List<Object> headers(ConsumerRecord<String, String> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(Arrays.asList(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
        }
        return headers;
    }

    private static Object committed(JsonNode request) {
        Properties config = new Properties();
        config.put("group.id", request.get("group").asText());
        Map<Integer, Object> offsets = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, config)) {
            for (TopicPartition item : partitions(request)) {
                OffsetAndMetadata found = consumer.committed(item);
                offsets.put(item.partition(), found == null ? null : found.offset());
            }
        }
        return offsets;
    }

    private static Object offsets(JsonNode request) {
        Map<Integer, Object> offsets = new HashMap<>();
        String at = request.get("at").asText();
        try (KafkaConsumer<String, String> consumer = Agent.consumer(request, new Properties())) {
            if (at.equals("earliest")) {
                consumer.beginningOffsets(partitions(request)).forEach(
                        (item, offset) -> offsets.put(item.partition(), offset));
            } else if (at.equals("latest")) {
                consumer.endOffsets(partitions(request)).forEach(
                        (item, offset) -> offsets.put(item.partition(), offset));
            } else {
                Map<TopicPartition, Long> times = new HashMap<>();
                partitions(request).forEach(item -> times.put(item, Long.parseLong(at)));
                for (Map.Entry<TopicPartition, OffsetAndTimestamp> entry : consumer.offsetsForTimes(times).entrySet()) {
                    offsets.put(entry.getKey().partition(), entry.getValue() == null ? -1 : entry.getValue().offset());
                }
            }
        }
        return offsets;
    }

    static List<TopicPartition> partitions(JsonNode request) {
        List<TopicPartition> partitions = new ArrayList<>();
        request.get("partitions").forEach(
                number -> partitions.add(new TopicPartition(request.get("topic").asText(), number.asInt())));
        return partitions;
    }
}
