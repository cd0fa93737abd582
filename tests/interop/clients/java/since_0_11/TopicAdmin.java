import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** What every release with an AdminClient, since 0.11, can administer in the same way. */
final class TopicAdmin {
    interface Action {
        Object run(AdminClient admin, JsonNode request, String topic) throws Exception;
    }

    static void addOperations(Map<String, Agent.Operation> operations) {
        add(operations, "create_topic", TopicAdmin::createTopic);
        add(operations, "delete_topic",
                (admin, request, topic) -> admin.deleteTopics(Collections.singleton(topic)).all().get());
        add(operations, "topics", (admin, request, topic) -> admin.listTopics().names().get());
        add(operations, "topic_config", TopicAdmin::topicConfig);
    }

    static void add(Map<String, Agent.Operation> operations, String name, Action action) {
        operations.put(name, request -> {
            Properties config = new Properties();
            config.put("bootstrap.servers", request.get("servers").asText());
            try (AdminClient admin = AdminClient.create(config)) {
                return action.run(admin, request, Agent.text(request.get("topic")));
            }
        });
    }

    private static Object createTopic(AdminClient admin, JsonNode request, String topic) throws Exception {
        NewTopic wanted = new NewTopic(topic, request.get("partitions").asInt(), (short) 1);
        Map<String, String> configs = new HashMap<>();
        request.get("configs").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return admin.createTopics(Collections.singleton(wanted.configs(configs))).all().get();
    }

    private static Object topicConfig(AdminClient admin, JsonNode request, String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> values = new HashMap<>();
        admin.describeConfigs(Collections.singleton(resource)).all().get().get(resource).entries().forEach(
                entry -> values.put(entry.name(), entry.value()));
        return values;
    }
}
