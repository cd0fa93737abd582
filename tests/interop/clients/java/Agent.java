import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own Java client as an agent: JSON lines in, JSON lines out, as tests/interop/clients/python/line_agent.py
 * describes. Compiled against each release that is tested; differences are in Compat, Records and Admin.
 */
public final class Agent {
    interface Operation {
        Object run(JsonNode request) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = new HashMap<>();
    private static final Map<String, Operation> OPERATIONS = new HashMap<>();
    private static final Map<String, Member> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        ASSIGNORS.put("range", "RangeAssignor");
        ASSIGNORS.put("roundrobin", "RoundRobinAssignor");
        ASSIGNORS.put("sticky", "StickyAssignor");
        ASSIGNORS.put("cooperative-sticky", "CooperativeStickyAssignor");
        OPERATIONS.put("produce", Agent::produce);
        OPERATIONS.put("consume", Agent::consume);
        OPERATIONS.put("over_sasl", Agent::overSasl);
        OPERATIONS.put("join", Agent::join);
        OPERATIONS.put("look", request -> MEMBERS.get(request.get("member").asText()).look());
        OPERATIONS.put("commit", request -> MEMBERS.get(request.get("member").asText()).commit());
        OPERATIONS.put("leave", request -> MEMBERS.remove(request.get("member").asText()).leave());
        Compat.addOperations(OPERATIONS);
        Admin.addOperations(OPERATIONS);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(done(JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> done(JsonNode request) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("answer", OPERATIONS.get(request.get("do").asText()).run(request));
        } catch (Throwable error) {
            error.printStackTrace();
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            Errors known = Errors.forException(cause);
            answer.put("error", cause.toString());
            answer.put("code", known == Errors.forCode((short) -1) ? null : known.code());
        }
        return answer;
    }

    private static Object produce(JsonNode request) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", request.get("servers").asText());
        config.put("acks", "all");
        config.put("compression.type", request.get("codec").asText());
        config.put("linger.ms", "5");
        Compat.configureProducer(config);
        String topic = request.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (JsonNode record : request.get("records")) {
                sent.add(producer.send(Records.made(topic, record)));
            }
        }
        List<Object> offsets = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            offsets.add(Arrays.asList(future.get().partition(), future.get().offset()));
        }
        return offsets;
    }

    private static Object consume(JsonNode request) {
        List<TopicPartition> partitions = new ArrayList<>();
        int[] wanted = {0};
        request.get("counts").fields().forEachRemaining(count -> {
            partitions.add(new TopicPartition(request.get("topic").asText(), Integer.parseInt(count.getKey())));
            wanted[0] += count.getValue().asInt();
        });
        List<Object> records = new ArrayList<>();
        Properties config = new Properties();
        if (request.hasNonNull("isolation")) {
            config.put("isolation.level", request.get("isolation").asText());
        }
        try (KafkaConsumer<String, String> consumer = consumer(request, config)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (records.size() < wanted[0]) {
                for (ConsumerRecord<String, String> record : Compat.poll(consumer)) {
                    records.add(asJson(record));
                }
            }
        }
        return records;
    }

    /** Logs in, produces a record and tells those that it then reads. */
    private static Object overSasl(JsonNode request) throws Exception {
        String mechanism = request.get("mechanism").asText();
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        Properties config = new Properties();
        config.put("bootstrap.servers", request.get("servers").asText());
        config.put("security.protocol", "SASL_PLAINTEXT");
        config.put("sasl.mechanism", mechanism);
        config.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
                module, request.get("user").asText(), request.get("password").asText()));
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(partition.topic(), 0, null, "over SASL")).get();
        }
        List<Object> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(request, config)) {
            consumer.assign(Arrays.asList(partition));
            consumer.seekToBeginning(Arrays.asList(partition));
            while (values.isEmpty()) {
                for (ConsumerRecord<String, String> record : Compat.poll(consumer)) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }

    private static Object join(JsonNode request) {
        Properties config = new Properties();
        config.put("group.id", request.get("group").asText());
        config.put("client.id", request.get("member").asText());
        config.put("metadata.max.age.ms", "1000");
        if (request.get("protocol").asText().equals("classic")) {
            config.put("session.timeout.ms", "6000");
            config.put("heartbeat.interval.ms", "300");
        } else {
            config.put("group.protocol", request.get("protocol").asText());
        }
        if (request.hasNonNull("instance")) {
            config.put("group.instance.id", request.get("instance").asText());
        }
        List<String> assignors = new ArrayList<>();
        request.get("assignors").forEach(
                name -> assignors.add("org.apache.kafka.clients.consumer." + ASSIGNORS.get(name.asText())));
        if (!assignors.isEmpty()) {
            config.put("partition.assignment.strategy", String.join(",", assignors));
        }
        List<String> topics = new ArrayList<>();
        request.get("topics").forEach(topic -> topics.add(topic.asText()));
        Member member = new Member(consumer(request, config), topics);
        MEMBERS.put(request.get("member").asText(), member);
        member.start();
        return null;
    }

    static KafkaConsumer<String, String> consumer(JsonNode request, Properties config) {
        config.put("bootstrap.servers", request.get("servers").asText());
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("fetch.max.wait.ms", "100");
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    static List<TopicPartition> partitions(JsonNode request) {
        List<TopicPartition> partitions = new ArrayList<>();
        request.get("partitions").forEach(
                number -> partitions.add(new TopicPartition(request.get("topic").asText(), number.asInt())));
        return partitions;
    }

    static Map<String, Object> asJson(ConsumerRecord<String, String> record) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("topic", record.topic());
        json.put("partition", record.partition());
        json.put("offset", record.offset());
        json.put("timestamp", record.timestamp());
        json.put("key", record.key());
        json.put("value", record.value());
        json.put("headers", Records.headers(record));
        return json;
    }

    static String text(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }
}
