import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A connector that writes three lines to the topic `topic`, each once: Maven Central has no connect-file of 4.4.0. */
public final class Lines extends SourceConnector {
    static final List<String> ALL = List.of("first", "second", "third");
    private Map<String, String> settings;

    @Override public String version() { return "1"; }
    @Override public void start(Map<String, String> given) { settings = given; }
    @Override public void stop() {}
    @Override public Class<? extends Task> taskClass() { return Writing.class; }
    @Override public List<Map<String, String>> taskConfigs(int most) { return List.of(settings); }

    @Override public ConfigDef config() {
        return new ConfigDef().define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where to.");
    }

    /** Goes on after the last line whose offset Connect has kept. */
    public static final class Writing extends SourceTask {
        private static final Map<String, String> WHOLE = Map.of("of", "lines");
        private String topic;
        private long next;

        @Override public String version() { return "1"; }
        @Override public void stop() {}

        @Override public void start(Map<String, String> given) {
            topic = given.get("topic");
            Map<String, Object> kept = context.offsetStorageReader().offset(WHOLE);
            next = kept == null ? 0 : (Long) kept.get("next");
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            if (next == ALL.size()) {
                Thread.sleep(100);
                return null;
            }
            String line = ALL.get((int) next++);
            // With a key, since the topic is compacted.
            return List.of(new SourceRecord(WHOLE, Map.of("next", next), topic, null, Schema.STRING_SCHEMA, line, Schema.STRING_SCHEMA, line));
        }
    }
}
