import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients of a cluster, each with its own properties, which may well be refused: one JSON object a line on standard
 * input, one answer a line on standard output. `{"do": "consume", "client": {...}, "topics": ["a"], "count": 3}`
 * answers `{"records": 3, "throttledMs": 0.0}` or `{"error": "TopicAuthorizationException", "message": ...}`.
 */
public final class Clients {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration POLL = Duration.ofMillis(200);

    public static void main(String[] none) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    static ObjectNode answer(JsonNode asked) throws Exception {
        try {
            return switch (asked.path("do").asText()) {
                case "consume" -> consume(asked);
                case "produce" -> produce(asked);
                case "transact" -> transact(asked);
                case "createTopic" -> createTopic(asked);
                default -> throw new IllegalArgumentException(asked.toString());
            };
        } catch (ExecutionException failed) {
            return refusal(failed.getCause());
        } catch (KafkaException refused) {
            return refusal(refused);
        }
    }

    static ObjectNode refusal(Throwable why) {
        return JSON.createObjectNode().put("error", why.getClass().getSimpleName()).put("message", why.getMessage());
    }

    /** Reads in a group from the beginning on until it has so many records, or for so long; then it commits. */
    static ObjectNode consume(JsonNode asked) {
        List<String> topics = new ArrayList<>();
        asked.path("topics").forEach(each -> topics.add(each.asText()));
        int found = 0;
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(properties(asked), bytes, bytes)) {
            consumer.subscribe(topics, new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    consumer.seekToBeginning(partitions);
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) { }
            });
            long until = System.nanoTime() + asked.path("withinMs").asLong() * 1_000_000;
            while (found < asked.path("count").asInt() && System.nanoTime() < until) {
                found += consumer.poll(POLL).count();
            }
            consumer.commitSync();
            return result(found, consumer.metrics(), "fetch-throttle-time-max");
        }
    }

    static ObjectNode produce(JsonNode asked) throws Exception {
        try (var producer = new KafkaProducer<>(properties(asked), new ByteArraySerializer(), new ByteArraySerializer())) {
            return result(sent(producer, asked), producer.metrics(), "produce-throttle-time-max");
        }
    }

    static ObjectNode transact(JsonNode asked) throws Exception {
        try (var producer = new KafkaProducer<>(properties(asked), new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            int count = sent(producer, asked);
            producer.commitTransaction();
            return result(count, producer.metrics(), "produce-throttle-time-max");
        }
    }

    static int sent(KafkaProducer<byte[], byte[]> producer, JsonNode asked) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (int each = 0; each < asked.path("count").asInt(); each++) {
            byte[] value = new byte[asked.path("size").asInt()];
            sent.add(producer.send(new ProducerRecord<>(asked.path("topic").asText(), value)));
        }
        for (var each : sent) each.get();
        return sent.size();
    }

    /** One replica of each partition; a quota that is used up is an error, and not waited for. */
    static ObjectNode createTopic(JsonNode asked) throws Exception {
        try (var admin = Admin.create(properties(asked))) {
            var topic = new NewTopic(asked.path("name").asText(), asked.path("partitions").asInt(), (short) 1);
            var options = new CreateTopicsOptions().retryOnQuotaViolation(asked.path("patient").asBoolean());
            admin.createTopics(List.of(topic), options).all().get();
            return JSON.createObjectNode().put("ok", true);
        }
    }

    static ObjectNode result(int count, Map<MetricName, ? extends Metric> metrics, String throttled) {
        double longest = metrics.entrySet().stream().filter(each -> each.getKey().name().equals(throttled))
                .mapToDouble(each -> (double) each.getValue().metricValue()).filter(each -> !Double.isNaN(each))
                .max().orElse(0);
        return JSON.createObjectNode().put("records", count).put("throttledMs", longest);
    }

    static Map<String, Object> properties(JsonNode asked) {
        Map<String, Object> found = new HashMap<>();
        asked.path("client").properties().forEach(each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }
}
