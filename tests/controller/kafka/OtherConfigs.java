// Asks a Kafka release what can be configured of brokers, groups and client metrics, and which values it takes; JSON
// lines. It needs the class path of the whole broker (kafka_2.13), as its configs are spread over all of Kafka's jars.
//
//     java -cp "$KAFKA_JARS" OtherConfigs.java > other_configs.jsonl

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Predicate;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;

public class OtherConfigs {
    static final List<String> VALUES = List.of(
        "", " ", "0", "1", "-1", "-2", "-3", " 7 ", "+5", "1_000", "1.0", "0.5", "1.5", "-0.1", "1e-1", "NaN", "Infinity", "0x10",
        "3", "4", "5", "9", "10", "17", "18", "20", "22", "23", "24", "25", "-131072", "-131073", "99", "100", "101", "999", "1000",
        "4000", "4999", "5000", "10000", "14999", "15000", "15001", "45000", "59999", "60000", "60001", "120000", "120001",
        "100000", "524287", "524288", "1048575", "1048576", "3600000", "3600001", "32767", "32768", "-32769",
        "2147483647", "2147483648", "2147483639", "2147483640", "-2147483648", "9223372036854775807", "9223372036854775808",
        "true", "TRUE", "False", "yes", "none", "None", "delete", "compact", "compact,delete", "delete,", ",", "a", "a,b", "a,a", "a, ,b",
        "gzip", "zstd", "producer", "CreateTime", "LogAppendTime", "required", "requested", "REQUIRED", "earliest", "latest",
        "EARLIEST", "by_duration:PT1H", "by_duration:PT-1H", "by_duration:x", "by_duration:P", "by_duration:PT", "by_duration:pt1h",
        "by_duration:P1DT-1H", "by_duration:PT1.5S", "by_duration:-PT-1S", "by_duration:PT0S", "by_duration:P1Y", "by_duration:",
        "by_duration:PT1S,", "BY_DURATION:PT1H", " latest ", "read_committed", "read_uncommitted",
        "sticky", "highly_available", "__dlq", "java.lang.String", "no.such.Class",
        "client_id=a.*", "client_id=a.*,client_software_name=b", "client_id=(", "client_id", "client_name=a",
        "client_id=a=b", " client_id = a ", "client_id=", "client_id=a,client_id=b", "=a");

    static final List<Map<String, String>> BROKER_CHANGES = List.of(
        Map.of("background.threads", "5"),
        Map.of("background.threads", "x"),
        Map.of("broker.id", "5"),
        Map.of("broker.id", "x", "background.threads", "5"),
        Map.of("no.such.config", "5"),
        Map.of("listener.name.internal.no.such.config", "5"),
        Map.of("ssl.keystore.location", "/k"),
        Map.of("listener.name.internal.ssl.keystore.location", "/k"),
        Map.of("listener.name.internal.ssl.client.auth", "required"),
        Map.of("listener.name.internal.ssl.client.auth", "perhaps"),
        Map.of("sasl.jaas.config", "x"),
        Map.of("listener.name.internal.scram-sha-256.sasl.jaas.config", "x"),
        Map.of("listener.name.internal.broker.id", "5"),
        Map.of("max.connections", "5"),
        Map.of("listener.name.internal.max.connections", "5"),
        Map.of("listener.name.internal.max.connections", "-1"),
        Map.of("listener.name.internal.max.connection.creation.rate", "5"),
        Map.of("listener.name.internal.num.network.threads", "5"),
        Map.of("listener.name.internal.background.threads", "5"),
        Map.of("listener.name.internal.", "5"),
        Map.of("listener.name.a.b.max.connections", "5"),
        Map.of("listeners", "PLAINTEXT://:9092"),
        Map.of("advertised.listeners", "PLAINTEXT://:9092"),
        Map.of("cordoned.log.dirs", "/d"),
        Map.of("principal.builder.class", "no.such.Class"),
        Map.of("min.insync.replicas", "0"),
        Map.of("log.retention.ms", "-5"),
        Map.of("log.retention.hours", "5"),
        Map.of("group.consumer.assignor.offload.enable", "x"),
        Map.of("leader.replication.throttled.rate", "0"),
        Map.of("leader.replication.throttled.rate", "-1"),
        Map.of("process.roles", "broker"));

    static final List<Map<String, String>> GROUP_CHANGES = List.of(
        Map.of("consumer.session.timeout.ms", "45000", "consumer.heartbeat.interval.ms", "15000"),
        Map.of("consumer.session.timeout.ms", "45000", "consumer.heartbeat.interval.ms", "45000"),
        Map.of("share.session.timeout.ms", "45000", "share.heartbeat.interval.ms", "15000"),
        Map.of("streams.session.timeout.ms", "45000", "streams.heartbeat.interval.ms", "15000"),
        Map.of("share.auto.offset.reset", "latest", "no.such.config", "x"),
        Map.of("streams.rack.aware.assignment.tags", "a,b"),
        Map.of("streams.rack.aware.assignment.tags", "a,b,a"),
        Map.of());

    public static void main(String[] args) {
        ObjectNode values = json("asked");
        VALUES.forEach(values.putArray("values")::add);
        System.out.println(values);
        brokers();
        KafkaConfig config = new KafkaConfig(Map.of("process.roles", "controller", "node.id", "1", "listeners", "C://:1",
            "controller.listener.names", "C", "controller.quorum.bootstrap.servers", "localhost:1",
            "listener.security.protocol.map", "C:PLAINTEXT"));
        groups(config);
        for (var key : new TreeMap<>(ClientMetricsConfigs.configDef().configKeys()).values())
            row("client metrics", key, each -> valid(() -> ClientMetricsConfigs.validate("x", each)));
    }

    static void brokers() {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys());
        DynamicConfig.Broker.configKeys().forEach(keys::putIfAbsent);
        for (var key : keys.values()) {
            if (!modes.containsKey(key.name)) {
                System.out.println(described("broker", key).put("scope", "read-only"));
            } else {
                ObjectNode json = described("broker", key).put("scope", modes.get(key.name));
                taken(json, key.name, each -> valid(() -> DynamicConfig.Broker.validate(properties(each), properties(each))));
                System.out.println(json);
            }
        }
        for (var change : BROKER_CHANGES)
            for (boolean one : List.of(false, true)) {
                ObjectNode json = json("broker change").put("one broker", one);
                new TreeMap<>(change).forEach(json.putObject("values")::put);
                System.out.println(json.put("valid", valid(
                    () -> DynamicBrokerConfig.validateConfigs(properties(change), properties(change), one))));
            }
    }

    static void groups(KafkaConfig config) {
        var coordinator = config.groupCoordinatorConfig();
        var share = config.shareGroupConfig();
        for (var key : new TreeMap<>(GroupConfig.CONFIG_DEF.configKeys()).values())
            row("group", key, each -> valid(() -> GroupConfig.validate(each, coordinator, share)));
        for (var change : GROUP_CHANGES) {
            ObjectNode json = json("group change");
            new TreeMap<>(change).forEach(json.putObject("values")::put);
            System.out.println(json.put("valid", valid(() -> GroupConfig.validate(change, coordinator, share))));
        }
    }

    static void row(String kind, ConfigDef.ConfigKey key, Predicate<Map<String, String>> takes) {
        ObjectNode json = described(kind, key);
        if (kind.equals("group"))
            json.put("synonym", GroupConfig.brokerSynonym(key.name).orElse(null));
        taken(json, key.name, takes);
        System.out.println(json);
    }

    static void taken(ObjectNode json, String name, Predicate<Map<String, String>> takes) {
        VALUES.stream().filter(value -> takes.test(Map.of(name, value))).forEach(json.putArray("taken")::add);
    }

    static ObjectNode described(String kind, ConfigDef.ConfigKey key) {
        String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
        return json(kind).put("name", key.name).put("type", key.type.toString()).put("default", value)
            .put("internal", key.internalConfig);
    }

    static ObjectNode json(String kind) {
        return JsonNodeFactory.instance.objectNode().put("kind", kind);
    }

    static Properties properties(Map<String, String> values) {
        Properties made = new Properties();
        made.putAll(values);
        return made;
    }

    static boolean valid(Runnable asked) {
        try {
            asked.run();
            return true;
        } catch (RuntimeException refused) {
            return false;
        }
    }
}
