import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * Creates topics by Admin clients and measures how long each takes: one JSON object a line on standard input, one
 * answer a line on standard output. `{"names": ["a", ...], "partitions": 1, "atOnce": 64}` has 64 clients create them,
 * each client one after the other, and answers `{"seconds": 3.2, "took": [0.3, ...]}`.
 * An Admin client has one request under way for a node, so each way in flight is a client of its own. Arguments:
 * bootstrap servers, how many clients, replicas of each partition.
 */
public final class Topics {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "request.timeout.ms", 60_000, "default.api.timeout.ms", 300_000);
        int clients = Integer.parseInt(arguments[1]);
        short replicas = Short.parseShort(arguments[2]);
        List<Admin> admins = new ArrayList<>();
        for (int each = 0; each < clients; each++) {
            admins.add(Admin.create(settings));
        }
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(created(admins, threads, JSON.readTree(line), replicas)));
        }
        threads.shutdown();
        admins.forEach(Admin::close);
    }

    static Map<String, Object> created(List<Admin> admins, ExecutorService threads, JsonNode asked, short replicas)
            throws Exception {
        JsonNode names = asked.path("names");
        int partitions = asked.path("partitions").asInt();
        int atOnce = asked.path("atOnce").asInt();
        List<Callable<List<Double>>> work = new ArrayList<>();
        for (int client = 0; client < atOnce; client++) {
            Admin admin = admins.get(client);
            int begin = client;
            work.add(() -> {
                List<Double> took = new ArrayList<>();
                for (int number = begin; number < names.size(); number += atOnce) {
                    var topic = new NewTopic(names.path(number).asText(), partitions, replicas);
                    long began = System.nanoTime();
                    admin.createTopics(List.of(topic)).all().get();
                    took.add((System.nanoTime() - began) / 1e9);
                }
                return took;
            });
        }
        List<Double> took = new ArrayList<>();
        long began = System.nanoTime();
        for (var each : threads.invokeAll(work)) {
            took.addAll(each.get());
        }
        return Map.of("seconds", (System.nanoTime() - began) / 1e9, "took", took);
    }
}
