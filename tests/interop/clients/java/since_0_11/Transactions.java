import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers, of 0.11 and all later releases. */
final class Transactions {
    static void addOperations(Map<String, Agent.Operation> operations) {
        operations.put("transact", Transactions::transact);
        operations.put("fence", Transactions::fence);
        operations.put("copy", Transactions::copy);
    }

    private static KafkaProducer<String, String> producer(JsonNode request) {
        Properties config = new Properties();
        config.put("bootstrap.servers", request.get("servers").asText());
        config.put("transactional.id", request.get("transactional_id").asText());
        Compat.configureProducer(config);
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static Object transact(JsonNode request) {
        try (KafkaProducer<String, String> producer = producer(request)) {
            for (JsonNode transaction : request.get("transactions")) {
                producer.beginTransaction();
                for (JsonNode record : transaction.get("records")) {
                    producer.send(Records.made(request.get("topic").asText(), record));
                }
                producer.flush();
                if (transaction.get("commit").asBoolean()) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return null;
    }

    /** A producer writes, another takes its id, and the first wants to commit: which is refused. */
    private static Object fence(JsonNode request) {
        KafkaProducer<String, String> first = producer(request);
        try {
            first.beginTransaction();
            first.send(new ProducerRecord<>(request.get("topic").asText(), 0, null, "fenced"));
            first.flush();
            producer(request).close();
            first.commitTransaction();
        } finally {
            first.close();
        }
        return null;
    }

    /** What a group reads is written in capitals, with its positions. The first attempt is aborted. */
    private static Object copy(JsonNode request) {
        String group = request.get("group").asText();
        Properties config = new Properties();
        config.put("group.id", group);
        config.put("isolation.level", "read_committed");
        int left = request.get("count").asInt();
        boolean abort = true;
        try (KafkaProducer<String, String> producer = producer(request);
                KafkaConsumer<String, String> consumer = Agent.consumer(request, config)) {
            consumer.subscribe(Collections.singletonList(request.get("source").asText()));
            while (left > 0) {
                ConsumerRecords<String, String> records = Compat.poll(consumer);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(
                            request.get("topic").asText(), record.partition(), record.key(),
                            record.value().toUpperCase()));
                    positions.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                Compat.sendOffsets(producer, positions, consumer, group);
                if (abort) {
                    abort = false;
                    producer.flush();
                    producer.abortTransaction();
                    for (TopicPartition item : records.partitions()) {
                        consumer.seek(item, records.records(item).get(0).offset());
                    }
                } else {
                    producer.commitTransaction();
                    left -= records.count();
                }
            }
        }
        return null;
    }
}
