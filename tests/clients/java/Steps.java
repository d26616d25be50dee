import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the programs do one after the other: a line for each step, as `tests/clients/steps.py` prints it. */
final class Steps {
    static final long PATIENCE_MS = 30_000;
    static final Duration POLL = Duration.ofMillis(200);
    final String servers;
    final Admin admin;

    Steps(String servers) {
        this.servers = servers;
        this.admin = Admin.create(properties());
    }

    interface Program {
        void run(Steps steps) throws Exception;
    }

    /** Runs a program and ends the process, whatever threads it has left. */
    static void whole(String servers, Program program) {
        try {
            program.run(new Steps(servers));
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    Properties properties(String... more) {
        Properties found = new Properties();
        found.put("bootstrap.servers", servers);
        for (int at = 0; at < more.length; at += 2) found.put(more[at], more[at + 1]);
        return found;
    }

    /** Prints what came of it; of a refusal the exception's name. */
    void step(String name, Callable<?> call) {
        System.out.println(name + ": " + outcome(call));
        System.out.flush();
    }

    /** The same of a read, which is repeated until it says what it has to. */
    void read(String name, Callable<?> call, Predicate<String> isThere) throws InterruptedException {
        long ends = System.currentTimeMillis() + PATIENCE_MS;
        String said = outcome(call);
        while (!isThere.test(said) && System.currentTimeMillis() < ends) {
            Thread.sleep(200);
            said = outcome(call);
        }
        String last = said;
        step(name, () -> last);
    }

    static String outcome(Callable<?> call) {
        try {
            Object found = call.call();
            return found == null ? "done" : String.valueOf(found);
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        } catch (Exception refused) {
            return refused.getClass().getSimpleName();
        }
    }

    Object create(String topic, int partitions) throws Exception {
        return admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 2))).all().get();
    }

    Object write(String topic, Collection<String> values) throws Exception {
        try (var producer = new KafkaProducer<>(properties(), new StringSerializer(), new StringSerializer())) {
            for (String each : values) producer.send(new ProducerRecord<>(topic, each, each)).get();
        }
        return null;
    }

    /** So many records, or fewer if there are no more for a while; the last value of each key. */
    <V> Map<String, V> last(String topic, int count, Deserializer<V> values) {
        Map<String, V> found = new TreeMap<>();
        var properties = properties("group.id", "readers-of-" + topic, "auto.offset.reset", "earliest",
                "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), values)) {
            consumer.subscribe(List.of(topic));
            long ends = System.currentTimeMillis() + PATIENCE_MS;
            for (int seen = 0; seen < count && System.currentTimeMillis() < ends; ) {
                for (var each : consumer.poll(POLL)) {
                    found.put(each.key(), each.value());
                    seen++;
                }
            }
        }
        return found;
    }

    /** The topics whose names begin so, each with its partitions, replicas and what was set for it. */
    List<String> topics(String prefix) throws Exception {
        List<String> found = new ArrayList<>();
        for (String name : new TreeMap<>(admin.listTopics().namesToListings().get()).tailMap(prefix).keySet()) {
            if (!name.startsWith(prefix)) break;
            var topic = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
            var set = new TreeMap<String, String>();
            for (var each : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                if (each.source().name().equals("DYNAMIC_TOPIC_CONFIG")) set.put(each.name(), each.value());
            }
            found.add(name + " " + topic.partitions().size() + "*" + topic.partitions().get(0).replicas().size() + " " + set);
        }
        return found;
    }
}
