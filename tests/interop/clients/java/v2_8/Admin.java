import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What there is to administer, from 2.8 on. */
final class Admin {
    static void addOperations(Map<String, Agent.Operation> operations) {
        TopicAdmin.addOperations(operations);
        TopicAdmin.add(operations, "add_partitions", (admin, request, topic) -> admin.createPartitions(
                Collections.singletonMap(topic, NewPartitions.increaseTo(request.get("total").asInt()))).all().get());
        TopicAdmin.add(operations, "describe_topic", Admin::describeTopic);
        TopicAdmin.add(operations, "alter_config", Admin::alterConfig);
        TopicAdmin.add(operations, "delete_records", Admin::deleteRecords);
        TopicAdmin.add(operations, "offsets", Admin::offsets);
        TopicAdmin.add(operations, "groups", Admin::groups);
        TopicAdmin.add(operations, "describe_group", Admin::describeGroup);
        TopicAdmin.add(operations, "delete_group", (admin, request, topic) -> admin.deleteConsumerGroups(
                Collections.singleton(request.get("group").asText())).all().get());
        TopicAdmin.add(operations, "alter_offsets", Admin::alterOffsets);
        TopicAdmin.add(operations, "delete_offsets", (admin, request, topic) -> admin.deleteConsumerGroupOffsets(
                request.get("group").asText(), new HashSet<>(Agent.partitions(request))).all().get());
        TopicAdmin.add(operations, "brokers", Admin::brokers);
    }

    @SuppressWarnings("unchecked")
    private static Object describeTopic(AdminClient admin, JsonNode request, String topic) throws Exception {
        DescribeTopicsResult result = admin.describeTopics(Collections.singleton(topic));
        String all = Arrays.stream(DescribeTopicsResult.class.getMethods()).anyMatch(
                method -> method.getName().equals("allTopicNames")) ? "allTopicNames" : "all";
        KafkaFuture<Map<String, TopicDescription>> found = (KafkaFuture<Map<String, TopicDescription>>)
                DescribeTopicsResult.class.getMethod(all).invoke(result);
        List<Object> partitions = new ArrayList<>();
        found.get().get(topic).partitions().forEach(
                item -> partitions.add(Arrays.asList(item.partition(), item.leader().id())));
        return partitions;
    }

    private static Object alterConfig(AdminClient admin, JsonNode request, String topic) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        request.get("configs").fields().forEachRemaining(entry -> changes.add(new AlterConfigOp(
                new ConfigEntry(entry.getKey(), Agent.text(entry.getValue())),
                entry.getValue().isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.incrementalAlterConfigs(Collections.singletonMap(resource, changes)).all().get();
    }

    private static Object deleteRecords(AdminClient admin, JsonNode request, String topic) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        request.get("before").fields().forEachRemaining(entry -> wanted.put(
                new TopicPartition(topic, Integer.parseInt(entry.getKey())),
                RecordsToDelete.beforeOffset(entry.getValue().asLong())));
        Map<Integer, Object> lows = new HashMap<>();
        for (Map.Entry<TopicPartition, KafkaFuture<DeletedRecords>> entry :
                admin.deleteRecords(wanted).lowWatermarks().entrySet()) {
            lows.put(entry.getKey().partition(), entry.getValue().get().lowWatermark());
        }
        return lows;
    }

    private static Object offsets(AdminClient admin, JsonNode request, String topic) throws Exception {
        String at = request.get("at").asText();
        OffsetSpec spec = at.equals("earliest") ? OffsetSpec.earliest()
                : at.equals("latest") ? OffsetSpec.latest()
                : OffsetSpec.forTimestamp(Long.parseLong(at));
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        Agent.partitions(request).forEach(item -> wanted.put(item, spec));
        Map<Integer, Object> offsets = new HashMap<>();
        admin.listOffsets(wanted).all().get().forEach((item, found) -> offsets.put(item.partition(), found.offset()));
        return offsets;
    }

    private static Object groups(AdminClient admin, JsonNode request, String topic) throws Exception {
        List<Object> names = new ArrayList<>();
        admin.listConsumerGroups().all().get().forEach(group -> names.add(group.groupId()));
        return names;
    }

    private static Object describeGroup(AdminClient admin, JsonNode request, String topic) throws Exception {
        String group = request.get("group").asText();
        ConsumerGroupDescription found =
                admin.describeConsumerGroups(Collections.singleton(group)).all().get().get(group);
        Map<String, Object> members = new HashMap<>();
        found.members().forEach(member -> {
            List<Object> assigned = new ArrayList<>();
            member.assignment().topicPartitions().forEach(
                    item -> assigned.add(Arrays.asList(item.topic(), item.partition())));
            members.put(member.clientId(), assigned);
        });
        Map<String, Object> description = new HashMap<>();
        description.put("state", found.state().toString());
        description.put("members", members);
        return description;
    }

    private static Object alterOffsets(AdminClient admin, JsonNode request, String topic) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        request.get("offsets").fields().forEachRemaining(entry -> wanted.put(
                new TopicPartition(topic, Integer.parseInt(entry.getKey())),
                new OffsetAndMetadata(entry.getValue().asLong())));
        return admin.alterConsumerGroupOffsets(request.get("group").asText(), wanted).all().get();
    }

    private static Object brokers(AdminClient admin, JsonNode request, String topic) throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        List<Object> ids = new ArrayList<>();
        found.nodes().get().forEach(node -> ids.add(node.id()));
        Map<String, Object> description = new HashMap<>();
        description.put("cluster", found.clusterId().get());
        description.put("controller", found.controller().get().id());
        description.put("brokers", ids);
        return description;
    }
}
