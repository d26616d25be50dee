import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.cli.ConnectDistributed;

/** A worker of Connect in distributed mode, with one connector, which writes each record exactly once (KIP-618). */
public final class Connect {
    static final String TOPIC = "connected", NAME = "lines";

    public static void main(String[] arguments) {
        Steps.whole(arguments[0], Connect::run);
    }

    static void run(Steps steps) throws Exception {
        Map<String, String> worker = new HashMap<>(Map.of("bootstrap.servers", steps.servers, "group.id", "connect-workers",
                "config.storage.topic", "connect-configs", "offset.storage.topic", "connect-offsets",
                "status.storage.topic", "connect-status", "listeners", "http://127.0.0.1:0", "plugin.discovery", "only_scan",
                "exactly.once.source.support", "enabled"));
        for (String each : List.of("config", "offset", "status")) worker.put(each + ".storage.replication.factor", "2");
        for (String each : List.of("key", "value")) {
            worker.put(each + ".converter", "org.apache.kafka.connect.storage.StringConverter");
        }
        var connect = new ConnectDistributed().startConnect(worker);
        steps.read("internal topics", () -> steps.topics("connect-"), said -> said.contains("connect-status"));
        Map<String, String> connector = Map.of("name", NAME, "connector.class", Lines.class.getName(), "topic", TOPIC, "tasks.max", "1",
                "topic.creation.default.replication.factor", "2", "topic.creation.default.partitions", "3",
                "topic.creation.default.cleanup.policy", "compact");
        steps.read("make a connector", () -> {
            var made = new org.apache.kafka.connect.util.FutureCallback<Object>();
            connect.herder().putConnectorConfig(NAME, connector, true, (error, found) -> made.onCompletion(error, found));
            made.get(Steps.PATIENCE_MS, TimeUnit.MILLISECONDS);
            return null;
        }, said -> said.equals("done"));
        steps.read("its state", () -> connect.herder().connectorStatus(NAME).connector().state(), said -> said.equals("RUNNING"));
        steps.read("its task", () -> connect.herder().connectorStatus(NAME).tasks().get(0).state(), said -> said.equals("RUNNING"));
        steps.read("the topic that it made", () -> steps.topics(TOPIC), said -> said.contains(TOPIC));
        steps.step("what it wrote", () -> values(steps));
        steps.step("its task after that", () -> connect.herder().connectorStatus(NAME).tasks().get(0).state());
        connect.stop();
        connect.awaitStop();
        for (String each : List.of(TOPIC, "connect-configs", "connect-offsets", "connect-status")) {
            steps.step("delete " + each, () -> steps.admin.deleteTopics(List.of(each)).all().get());
        }
    }

    static Object values(Steps steps) {
        var properties = steps.properties("group.id", "readers-of-connected", "auto.offset.reset", "earliest",
                "isolation.level", "read_committed");
        var found = new java.util.ArrayList<String>();
        var text = new StringDeserializer();
        try (var consumer = new org.apache.kafka.clients.consumer.KafkaConsumer<>(properties, text, text)) {
            consumer.subscribe(List.of(TOPIC));
            long ends = System.currentTimeMillis() + Steps.PATIENCE_MS;
            while (found.size() < Lines.ALL.size() && System.currentTimeMillis() < ends) {
                for (var each : consumer.poll(Steps.POLL)) found.add(each.value());
            }
        }
        java.util.Collections.sort(found); // the lines are in three partitions
        return found;
    }
}
