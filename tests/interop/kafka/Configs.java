import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Writes every config that a release has: of whom, its name, type and default, and whether it is a secret; JSON lines. */
public final class Configs {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        write("broker", KafkaConfig.configDef());
        write("broker", QuotaConfig.brokerQuotaConfigs());
        write("topic", LogConfig.configDefCopy());
        write("group", ofGroups());
        write("client metrics", ClientMetricsConfigs.configDef());
    }

    /** A method of GroupConfig in 4.0, a field since. */
    static ConfigDef ofGroups() throws ReflectiveOperationException {
        try {
            return (ConfigDef) GroupConfig.class.getField("CONFIG_DEF").get(null);
        } catch (NoSuchFieldException before) {
            return (ConfigDef) GroupConfig.class.getMethod("configDef").invoke(null);
        }
    }

    static void write(String of, ConfigDef configs) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(configs.configKeys()).values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            System.out.println(JsonNodeFactory.instance.objectNode().put("of", of).put("name", key.name)
                    .put("type", key.type.name()).put("default", value).put("sensitive", key.type.isSensitive())
                    .put("internal", key.internalConfig));
        }
    }
}
