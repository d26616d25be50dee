import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer that does what it is told: one JSON object a line on standard input, one answer a line on
 * standard output. `{"do": "send", "topic": "a", "values": [[0, "x"]]}` waits until the records are acknowledged and
 * answers `{"ok": true}` or `{"error": "..."}`. Arguments: bootstrap servers and transactional id.
 */
public final class Transactions {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "transactional.id", arguments[1], "transaction.timeout.ms", 60_000);
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        for (String line; (line = lines.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(answer(producer, JSON.readTree(line))));
        }
    }

    static Map<String, Object> answer(KafkaProducer<String, String> producer, JsonNode asked) throws Exception {
        try {
            switch (asked.path("do").asText()) {
                case "init" -> producer.initTransactions();
                case "begin" -> producer.beginTransaction();
                case "send" -> send(producer, asked);
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                default -> throw new IllegalArgumentException(asked.toString());
            }
            return Map.of("ok", true);
        } catch (ExecutionException failed) {
            return Map.of("error", failed.getCause().toString());
        } catch (KafkaException refused) {
            return Map.of("error", refused.toString());
        }
    }

    static void send(KafkaProducer<String, String> producer, JsonNode asked) throws Exception {
        List<Future<?>> sent = new ArrayList<>();
        for (JsonNode each : asked.path("values")) {
            String topic = asked.path("topic").asText();
            sent.add(producer.send(new ProducerRecord<>(topic, each.get(0).asInt(), null, each.get(1).asText())));
        }
        for (var each : sent) each.get();
    }
}
