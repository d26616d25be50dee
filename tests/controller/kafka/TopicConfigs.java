// Asks a Kafka release which values it takes for which topic config, and which configs a new topic has; JSON lines.
//
//     java -cp "$KAFKA_JARS" TopicConfigs.java > topic_configs.jsonl

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

public class TopicConfigs {
    static final List<String> VALUES = List.of(
        "", " ", "0", "1", "-1", "-2", "-3", " 7 ", "+5", "1_000", "1.0", "0.5", "1.5", "-0.1", "1e-1", "NaN", "0x10", "4", "3",
        "2147483647", "2147483648", "2147483639", "2147483640", "-2147483648", "9223372036854775807", "9223372036854775808",
        "1048576", "1048575", "9", "10", "17", "18", "22", "23", "-131072", "-131073", "true", "TRUE", "False", "yes",
        "delete", "compact", "compact,delete", "compact, delete", "compact,compact", "delete,", ",", "none", "Delete",
        "gzip", "zstd", "producer", "GZIP", "uncompressed", "CreateTime", "LogAppendTime", "createtime",
        "*", "0:1", "0:1,1:2", "0:1, 1:2", "0:", "a:b", "0:1,*", "*,*", "0:1,0:1", ",0:1", "0:1,", "0:1,,1:2", "*,", ",*", " * ",
        "\u00a07", "7\u2003", "\u00007\u001f");

    static final Map<String, String> TIERED = Map.of("remote.storage.enable", "true");

    /** What was set, what is set now. */
    static final List<List<Map<String, String>>> CHANGES = List.of(
        List.of(Map.of(), Map.of("min.compaction.lag.ms", "10", "max.compaction.lag.ms", "9")),
        List.of(Map.of(), Map.of("min.compaction.lag.ms", "10", "max.compaction.lag.ms", "10")),
        List.of(Map.of(), TIERED),
        List.of(TIERED, Map.of()),
        List.of(TIERED, Map.of("remote.storage.enable", "false")),
        List.of(TIERED, Map.of("remote.storage.enable", "false", "remote.log.delete.on.disable", "true")),
        List.of(TIERED, TIERED),
        List.of(Map.of(), with("cleanup.policy", "compact")),
        List.of(Map.of(), with("cleanup.policy", "")),
        List.of(Map.of(), with("cleanup.policy", "delete,compact")),
        List.of(Map.of(), with("cleanup.policy", "delete")),
        List.of(Map.of(), with("retention.ms", "5", "local.retention.ms", "6")),
        List.of(Map.of(), with("retention.ms", "5", "local.retention.ms", "5")),
        List.of(Map.of(), with("retention.ms", "5", "local.retention.ms", "-1")),
        List.of(Map.of(), with("retention.ms", "5", "local.retention.ms", "-2")),
        List.of(Map.of(), with("retention.ms", "-1", "local.retention.ms", "-1")),
        List.of(Map.of(), with("retention.bytes", "5", "local.retention.bytes", "6")),
        List.of(Map.of(), with("retention.bytes", "5", "local.retention.bytes", "-1")),
        List.of(Map.of(), with("retention.bytes", "-5", "local.retention.bytes", "-1")),
        List.of(Map.of(), with("retention.bytes", "0", "local.retention.bytes", "-1")),
        List.of(Map.of(), with("retention.bytes", "0", "local.retention.bytes", "1")),
        List.of(Map.of(), with("retention.bytes", "-1", "local.retention.bytes", "6")),
        List.of(Map.of(), with("remote.copy.lag.ms", "6", "local.retention.ms", "5")),
        List.of(Map.of(), with("remote.copy.lag.ms", "5", "local.retention.ms", "5")),
        List.of(Map.of(), with("remote.copy.lag.ms", "6", "retention.ms", "5")),
        List.of(Map.of(), with("remote.copy.lag.ms", "6", "retention.ms", "-1")),
        List.of(Map.of(), with("remote.copy.lag.bytes", "6", "local.retention.bytes", "5")),
        List.of(Map.of(), with("remote.copy.lag.bytes", "1", "retention.bytes", "0")),
        List.of(Map.of(), with("remote.copy.lag.bytes", "6")),
        List.of(Map.of(), with("remote.log.copy.disable", "true")),
        List.of(Map.of(), with("remote.log.copy.disable", "true", "local.retention.ms", "5")),
        List.of(Map.of(), with("remote.log.copy.disable", "true", "local.retention.ms", "5", "retention.ms", "5")),
        List.of(Map.of(), with("remote.log.copy.disable", "true", "local.retention.bytes", "5", "retention.bytes", "6")),
        List.of(Map.of(), Map.of("retention.ms", "5", "local.retention.ms", "6")),
        List.of(Map.of(), Map.of("remote.log.delete.on.disable", "true")),
        List.of(Map.of(), Map.of("remote.log.copy.disable", "true", "local.retention.ms", "5")));

    static Map<String, String> with(String... pairs) {
        Map<String, String> made = new TreeMap<>(TIERED);
        for (int i = 0; i < pairs.length; i += 2) made.put(pairs[i], pairs[i + 1]);
        return made;
    }

    public static void main(String[] args) {
        for (String name : new TreeMap<>(LogConfig.configKeys()).keySet()) values(name);
        values("no.such.config");
        for (var change : CHANGES)
            for (boolean tiered : List.of(false, true)) changed(change.get(0), change.get(1), tiered);
        KafkaConfigSchema schema = new KafkaConfigSchema(
            Map.of(ConfigResource.Type.TOPIC, LogConfig.configDefCopy()), ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS);
        effective(schema, Map.of(), Map.of(), Map.of());
        effective(schema, Map.of("log.retention.hours", "2", "log.roll.hours", "3", "compression.type", "zstd"),
            Map.of("min.insync.replicas", "2", "log.retention.ms", "9"), Map.of("segment.bytes", "2097152", "cleanup.policy", "compact"));
        effective(schema, Map.of("log.retention.minutes", "2", "log.retention.hours", "5", "min.insync.replicas", "3"),
            Map.of(), Map.of("retention.ms", "77"));
    }

    static void values(String name) {
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("kind", "values").put("name", name);
        List<String> taken = VALUES.stream().filter(value -> isValid(Map.of(name, value))).toList();
        taken.forEach(json.putArray("taken")::add);
        VALUES.stream().filter(value -> !taken.contains(value)).forEach(json.putArray("refused")::add);
        System.out.println(json);
    }

    static void changed(Map<String, String> before, Map<String, String> now, boolean tiered) {
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("kind", "changed").put("tiered", tiered);
        new TreeMap<>(before).forEach(json.putObject("before")::put);
        new TreeMap<>(now).forEach(json.putObject("now")::put);
        System.out.println(json.put("valid", isValid(before, now, tiered)));
    }

    static boolean isValid(Map<String, String> values) {
        return isValid(Map.of(), values, true);
    }

    static boolean isValid(Map<String, String> before, Map<String, String> now, boolean tiered) {
        try {
            LogConfig.validate(before, now, Map.of("cleanup.policy", "delete"), tiered);
            return true;
        } catch (RuntimeException refused) {
            return false;
        }
    }

    static void effective(KafkaConfigSchema schema, Map<String, String> fixed, Map<String, String> cluster, Map<String, String> topic) {
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("kind", "effective");
        new TreeMap<>(fixed).forEach(json.putObject("static")::put);
        new TreeMap<>(cluster).forEach(json.putObject("cluster")::put);
        new TreeMap<>(topic).forEach(json.putObject("topic")::put);
        ObjectNode result = json.putObject("result");
        for (ConfigEntry entry : new TreeMap<>(schema.resolveEffectiveTopicConfigs(fixed, cluster, Map.of(), topic)).values())
            result.putObject(entry.name()).put("value", entry.value())
                .put("source", KafkaConfigSchema.translateConfigSource(entry.source()).id())
                .put("sensitive", entry.isSensitive()).put("readOnly", entry.isReadOnly());
        System.out.println(json);
    }
}
