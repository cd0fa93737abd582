import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/** What 0.11, the first release with an AdminClient, could administer. */
final class Admin {
    static void addOperations(Map<String, Agent.Operation> operations) {
        TopicAdmin.addOperations(operations);
        TopicAdmin.add(operations, "describe_topic", Admin::describeTopic);
        TopicAdmin.add(operations, "alter_config", Admin::alterConfig);
    }

    private static Object describeTopic(AdminClient admin, JsonNode request, String topic) throws Exception {
        List<Object> partitions = new ArrayList<>();
        admin.describeTopics(Collections.singleton(topic)).all().get().get(topic).partitions().forEach(
                item -> partitions.add(Arrays.asList(item.partition(), item.leader().id())));
        return partitions;
    }

    /** Not incremental: what is not named goes back to its default. */
    private static Object alterConfig(AdminClient admin, JsonNode request, String topic) throws Exception {
        List<ConfigEntry> entries = new ArrayList<>();
        request.get("configs").fields().forEachRemaining(
                entry -> entries.add(new ConfigEntry(entry.getKey(), entry.getValue().asText())));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.alterConfigs(Collections.singletonMap(resource, new Config(entries))).all().get();
    }
}
