import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/** Prints what Kafka's clients define: client, name, kind, default and validator, tab between them, a line each. */
public class ClientProperties {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> classes = Map.of(
                "producer", "org.apache.kafka.clients.producer.ProducerConfig",
                "consumer", "org.apache.kafka.clients.consumer.ConsumerConfig",
                "admin", "org.apache.kafka.clients.admin.AdminClientConfig");
        for (Map.Entry<String, String> each : classes.entrySet()) {
            Method method = Class.forName(each.getValue()).getMethod("configDef");
            ConfigDef defined = (ConfigDef) method.invoke(null);
            for (ConfigDef.ConfigKey key : new TreeMap<>(defined.configKeys()).values()) {
                if (key.internalConfig) {
                    continue;
                }
                Object value = key.hasDefault() ? key.defaultValue : "";
                String text = value instanceof Class<?> type ? type.getName() : String.valueOf(value);
                System.out.println(String.join("\t", each.getKey(), key.name, key.type.name(), text,
                        String.valueOf(key.validator)));
            }
        }
    }
}
