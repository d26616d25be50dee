// Asks a Kafka release what it answers and writes when configs are altered, request after request; JSON lines, one a
// cluster. Its methods are not public: compile into its package. The class path is the whole broker's (kafka_2.13).
//
//     javac -d "$OUT" -cp "$KAFKA_JARS" ConfigChanges.java
//     java -cp "$OUT:$KAFKA_JARS" org.apache.kafka.controller.ConfigChanges 7 80 > config_changes.jsonl

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import kafka.server.ControllerConfigurationValidator;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DefaultSupportedConfigChecker;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.common.utils.internals.LogContext;

public class ConfigChanges {
    static final Map<Type, List<String>> NAMES = Map.of(
        Type.TOPIC, List.of("orders", "bills", "orders", "bills", "nobody", "a/b", ""),
        Type.BROKER, List.of("", "1", "2", "", "1", "2", "9", "x", "-1"),
        Type.GROUP, List.of("payments", "payments", ""),
        Type.CLIENT_METRICS, List.of("phones", "phones", ""));

    static final Map<Type, Map<String, List<String>>> CONFIGS = Map.of(
        Type.TOPIC, Map.of(
            "flush.ms", List.of("1", "2", " 1", "-1", "x"),
            "cleanup.policy", List.of("delete", "compact", "compact,delete", "", ",", "shred", "delete,"),
            "follower.replication.throttled.replicas", List.of("*", "0:1", "0:1,1:2", "1:2, 0:1", "0:1,0:1", "x", ",0:1"),
            "min.insync.replicas", List.of("1", "2", "0"),
            "min.compaction.lag.ms", List.of("0", "5", "9"),
            "max.compaction.lag.ms", List.of("1", "7"),
            "remote.storage.enable", List.of("true", "false"),
            "no.such.config", List.of("1")),
        Type.BROKER, Map.of(
            "background.threads", List.of("1", "2"),
            "log.cleanup.policy", List.of("delete", "compact"),
            "metric.reporters", List.of("a", "b"),
            "min.insync.replicas", List.of("1", "2"),
            "cordoned.log.dirs", List.of("/a", "/b", "/a,/b", "", "/b,/a", "/c"),
            "listener.name.internal.ssl.cipher.suites", List.of("a", "b"),
            "no.such.config", List.of("1", "x".repeat(32_768))),
        Type.GROUP, Map.of(
            "consumer.session.timeout.ms", List.of("45000", "50000", "1", "x"),
            "share.auto.offset.reset", List.of("earliest", "latest", "never"),
            "streams.rack.aware.assignment.tags", List.of("a", "b"),
            "no.such.config", List.of("1")),
        Type.CLIENT_METRICS, Map.of(
            "interval.ms", List.of("100", "99", "x"),
            "match", List.of("client_id=a", "client_id", ""),
            "metrics", List.of("a", "b"),
            "no.such.config", List.of("1")));

    static final List<Type> TYPES = List.of(Type.TOPIC, Type.TOPIC, Type.TOPIC, Type.BROKER, Type.BROKER, Type.BROKER,
        Type.GROUP, Type.CLIENT_METRICS);
    static final List<OpType> OPERATIONS = List.of(OpType.SET, OpType.SET, OpType.DELETE, OpType.APPEND, OpType.SUBTRACT);

    static Random random;

    public static void main(String[] arguments) {
        random = new Random(Long.parseLong(arguments[0]));
        for (int i = 0; i < Integer.parseInt(arguments[1]); i++)
            new ConfigChanges((short) (i % 3 == 0 ? 29 : 33), i % 2 == 0).run();
    }

    final ObjectNode json;
    final ConfigurationControlManager manager;

    ConfigChanges(short level, boolean elr) {
        json = JsonNodeFactory.instance.objectNode().put("level", level).put("elr", elr);
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        FeatureControlManager features = new FeatureControlManager.Builder().setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(3000, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(3000))).build();
        features.replay(new FeatureLevelRecord().setName("metadata.version").setFeatureLevel(level));
        if (elr) features.replay(new FeatureLevelRecord().setName("eligible.leader.replicas.version").setFeatureLevel((short) 1));
        KafkaConfig config = new KafkaConfig(Map.of("process.roles", "controller", "node.id", "3000", "listeners", "C://:1",
            "controller.listener.names", "C", "controller.quorum.bootstrap.servers", "localhost:1",
            "listener.security.protocol.map", "C:PLAINTEXT"));
        manager = new ConfigurationControlManager.Builder().setSnapshotRegistry(registry).setFeatureControl(features)
            .setKafkaConfigSchema(new KafkaConfigSchema(
                Map.of(Type.BROKER, AbstractKafkaConfig.CONFIG_DEF, Type.TOPIC, LogConfig.configDefCopy()),
                ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS))
            .setValidator(new ControllerConfigurationValidator(config)).setExistenceChecker(ConfigChanges::checkExists)
            .setSupportedConfigChecker(new DefaultSupportedConfigChecker()).build();
        manager.replay(new ConfigRecord().setResourceType(Type.BROKER.id()).setResourceName("2").setName("cordoned.log.dirs")
            .setValue("/a,/b"));
    }

    void run() {
        ArrayNode steps = json.putArray("steps");
        for (int i = 0; i < 10; i++) {
            ObjectNode step = steps.addObject();
            if (random.nextInt(4) > 0) incremental(step);
            else legacy(step);
        }
        System.out.println(json);
    }

    void incremental(ObjectNode step) {
        Map<ConfigResource, Map<String, Map.Entry<OpType, String>>> asked = new LinkedHashMap<>();
        for (ConfigResource resource : resources()) {
            Map<String, Map.Entry<OpType, String>> changes = new LinkedHashMap<>();
            for (var config : values(resource).entrySet()) {
                OpType operation = one(OPERATIONS);
                changes.put(config.getKey(), new java.util.AbstractMap.SimpleEntry<>(operation,
                    operation == OpType.DELETE ? null : config.getValue()));
            }
            asked.put(resource, changes);
        }
        step.put("api", "incremental");
        ArrayNode written = step.putArray("asked");
        asked.forEach((resource, changes) -> {
            ArrayNode configs = named(written.addObject(), resource).putArray("configs");
            changes.forEach((name, change) -> configs.addArray().add(name).add(change.getKey().id()).add(shown(change.getValue())));
        });
        answered(step, manager.incrementalAlterConfigs(asked, false, false));
    }

    void legacy(ObjectNode step) {
        Map<ConfigResource, Map<String, String>> asked = new LinkedHashMap<>();
        resources().forEach(resource -> asked.put(resource, values(resource)));
        step.put("api", "legacy");
        ArrayNode written = step.putArray("asked");
        asked.forEach((resource, values) -> {
            ArrayNode configs = named(written.addObject(), resource).putArray("configs");
            values.forEach((name, value) -> configs.addArray().add(name).add(0).add(shown(value)));
        });
        answered(step, manager.legacyAlterConfigs(asked, false, false));
    }

    void answered(ObjectNode step, ControllerResult<Map<ConfigResource, ApiError>> result) {
        ArrayNode errors = step.putArray("errors");
        result.response().forEach((resource, error) -> named(errors.addObject(), resource).put("code", error.error().code()));
        ArrayNode records = step.putArray("records");
        for (ApiMessageAndVersion each : result.records()) {
            if (each.message() instanceof ClearElrRecord cleared) {
                records.addObject().put("clear", cleared.topicName());
            } else {
                ConfigRecord record = (ConfigRecord) each.message();
                named(records.addObject(), new ConfigResource(Type.forId(record.resourceType()), record.resourceName()))
                    .put("config", record.name()).put("value", shown(record.value()));
                manager.replay(record);
            }
        }
    }

    static List<ConfigResource> resources() {
        return random.ints(1 + random.nextInt(3)).mapToObj(each -> {
            Type type = one(TYPES);
            return new ConfigResource(type, one(NAMES.get(type)));
        }).distinct().toList();
    }

    /** As a broker lets them through: what is one broker's only is not set for all. */
    static Map<String, String> values(ConfigResource resource) {
        Map<String, List<String>> pool = CONFIGS.get(resource.type());
        List<String> names = pool.keySet().stream().sorted().toList();
        Map<String, String> chosen = new LinkedHashMap<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            String name = one(names);
            boolean ofOne = name.startsWith("listener.name.") || name.equals("cordoned.log.dirs");
            if (!ofOne || !resource.name().isEmpty()) chosen.put(name, one(pool.get(name)));
        }
        return chosen;
    }

    static void checkExists(ConfigResource resource) {
        if (resource.type() == Type.TOPIC && !Set.of("orders", "bills").contains(resource.name()))
            throw new UnknownTopicOrPartitionException();
        if (resource.type() == Type.BROKER && !Set.of("", "1", "2").contains(resource.name()))
            throw new BrokerIdNotRegisteredException(resource.name());
    }

    static ObjectNode named(ObjectNode json, ConfigResource resource) {
        return json.put("type", resource.type().id()).put("name", resource.name());
    }

    /** A long value is told by its length. */
    static String shown(String value) {
        return value == null || value.length() < 100 ? value : "x*" + value.length();
    }

    static <T> T one(List<T> of) {
        return of.get(random.nextInt(of.size()));
    }
}
