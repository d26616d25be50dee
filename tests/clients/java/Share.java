import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers of a share group, KIP-932: its configs, its records, what is said of it, its end. */
public final class Share {
    static final String TOPIC = "shared", GROUP = "sharing";

    public static void main(String[] arguments) {
        Steps.whole(arguments[0], Share::run);
    }

    static void run(Steps steps) throws Exception {
        List<String> values = new ArrayList<>();
        for (int each = 0; each < 20; each++) values.add("value " + each);
        var resource = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
        steps.step("create the topic", () -> steps.create(TOPIC, 2));
        for (String[] each : new String[][] {{"share.auto.offset.reset", "earliest"}, {"share.auto.offset.reset", "soon"},
                {"share.record.lock.duration.ms", "20000"}, {"share.record.lock.duration.ms", "1"}, {"nonsense", "1"}}) {
            var change = new AlterConfigOp(new ConfigEntry(each[0], each[1]), AlterConfigOp.OpType.SET);
            steps.step("set " + each[0] + " to " + each[1],
                    () -> steps.admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get());
        }
        steps.read("configs of the group", () -> configs(steps, resource), said -> said.contains("20000"));
        steps.step("write", () -> steps.write(TOPIC, values));
        var properties = steps.properties("group.id", GROUP, "share.acknowledgement.mode", "implicit");
        var text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(properties, text, text)) {
            consumer.subscribe(List.of(TOPIC));
            steps.step("read", () -> read(consumer, values.size()));
            steps.step("commit", () -> consumer.commitSync().values());
            steps.read("the group", () -> group(steps), said -> said.contains("STABLE"));
        }
        steps.read("offsets of the group", () -> steps.admin.listShareGroupOffsets(Map.of(GROUP,
                new org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(GROUP).get().size(),
                said -> said.equals("2"));
        steps.read("the group without members", () -> group(steps), said -> said.contains("EMPTY"));
        steps.step("delete the group", () -> steps.admin.deleteShareGroups(List.of(GROUP)).all().get());
        steps.step("delete it again", () -> steps.admin.deleteShareGroups(List.of(GROUP)).all().get());
        steps.step("delete the topic", () -> steps.admin.deleteTopics(List.of(TOPIC)).all().get());
    }

    static Object configs(Steps steps, ConfigResource resource) throws Exception {
        var found = new TreeSet<String>();
        for (var each : steps.admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            if (each.source().name().startsWith("DYNAMIC")) found.add(each.name() + "=" + each.value());
        }
        return found;
    }

    static Object group(Steps steps) throws Exception {
        var found = steps.admin.describeShareGroups(List.of(GROUP)).all().get().get(GROUP);
        return found.groupState().name() + ", " + found.members().size() + " members";
    }

    static Object read(KafkaShareConsumer<String, String> consumer, int count) {
        var found = new TreeSet<String>();
        long ends = System.currentTimeMillis() + Steps.PATIENCE_MS;
        while (found.size() < count && System.currentTimeMillis() < ends) {
            for (var each : consumer.poll(Steps.POLL)) found.add(each.value());
        }
        return found.size() + " records";
    }
}
