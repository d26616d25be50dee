import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** A count of words by Kafka Streams, exactly once, in a classic group and in one of KIP-1071. */
public final class Streams {
    public static void main(String[] arguments) {
        Steps.whole(arguments[0], Streams::run);
    }

    static void run(Steps steps) throws Exception {
        for (String protocol : new String[] {"classic", "streams"}) count(steps, protocol);
    }

    static void count(Steps steps, String protocol) throws Exception {
        String in = protocol + "-words", out = protocol + "-counts", application = protocol + "-application";
        List<String> words = new ArrayList<>();
        for (int each = 0; each < 30; each++) words.add("abc".substring(each % 3, each % 3 + 1));
        steps.step(protocol + ": create the topics", () -> { steps.create(in, 2); return steps.create(out, 1); });
        steps.step(protocol + ": write words", () -> steps.write(in, words));

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> stream = builder.stream(in);
        stream.groupBy((key, word) -> word + "!").count(Materialized.as("counts")).toStream()
                .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        var properties = steps.properties("application.id", application, "processing.guarantee", "exactly_once_v2",
                "default.key.serde", Serdes.String().getClass().getName(),
                "default.value.serde", Serdes.String().getClass().getName(),
                "group.protocol", protocol, "commit.interval.ms", "100", "statestore.cache.max.bytes", "0",
                "replication.factor", "2", "auto.offset.reset", "earliest",
                "state.dir", Files.createTempDirectory("streams").toString());
        var running = new KafkaStreams(builder.build(), properties);
        steps.step(protocol + ": start", () -> { running.start(); return null; });
        steps.read(protocol + ": state", () -> running.state(), said -> said.equals("RUNNING"));
        steps.step(protocol + ": counts", () -> steps.last(out, 30, new LongDeserializer()));
        steps.read(protocol + ": internal topics", () -> steps.topics(application), said -> said.contains("changelog"));
        steps.step(protocol + ": close", () -> running.close(Duration.ofSeconds(30)));
        steps.step(protocol + ": delete the group", () -> protocol.equals("classic")
                ? steps.admin.deleteConsumerGroups(List.of(application)).all().get()
                : steps.admin.deleteStreamsGroups(List.of(application)).all().get());
        for (String topic : List.of(in, out)) {
            steps.step(protocol + ": delete " + topic, () -> steps.admin.deleteTopics(List.of(topic)).all().get());
        }
    }
}
