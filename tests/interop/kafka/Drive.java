import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Asks a cluster for changes, as an operator's program would: one JSON object a line on standard input, one
 * answer a line on standard output. `{"do": "createTopic", "name": "a", "partitions": 2, "replicas": 1}` answers
 * `{"ok": true}` or `{"error": "TopicExistsException", "message": ...}`. The first argument: bootstrap servers.
 */
public final class Drive {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "request.timeout.ms", 10_000, "default.api.timeout.ms", 60_000);
        try (var admin = Admin.create(settings)) {
            for (String line; (line = lines.readLine()) != null; ) {
                System.out.println(JSON.writeValueAsString(answer(admin, arguments[0], JSON.readTree(line))));
            }
        }
    }

    static Object answer(Admin admin, String servers, JsonNode asked) throws Exception {
        try {
            boolean describe = asked.path("do").asText().equals("describe");
            return describe ? Described.all(admin) : Map.of("ok", done(admin, servers, asked));
        } catch (ExecutionException failed) {
            ObjectNode error = JSON.createObjectNode();
            error.put("error", failed.getCause().getClass().getSimpleName());
            return error.put("message", failed.getCause().getMessage());
        }
    }

    static boolean done(Admin admin, String servers, JsonNode asked) throws Exception {
        switch (asked.path("do").asText()) {
            case "produce" -> produce(servers, asked);
            case "deleteTopic" -> admin.deleteTopics(List.of(text(asked, "name"))).all().get();
            case "unregister" -> admin.unregisterBroker(asked.path("broker").asInt()).all().get();
            default -> change(admin, asked).get();
        }
        return true;
    }

    static KafkaFuture<Void> change(Admin admin, JsonNode asked) {
        return switch (asked.path("do").asText()) {
            case "createTopic" -> admin.createTopics(List.of(topic(asked))).all();
            case "createPartitions" -> admin.createPartitions(Map.of(text(asked, "name"), partitions(asked))).all();
            case "alterConfigs" -> admin.incrementalAlterConfigs(Map.of(resource(asked), configs(asked))).all();
            case "alterQuotas" -> admin.alterClientQuotas(List.of(quotas(asked))).all();
            case "createAcl" -> admin.createAcls(List.of(acl(asked))).all();
            case "deleteAcl" -> admin.deleteAcls(List.of(acl(asked).toFilter())).all().thenApply(gone -> null);
            case "upsertScram", "deleteScram" -> admin.alterUserScramCredentials(List.of(scram(asked))).all();
            case "alterScram" -> admin.alterUserScramCredentials(scrams(asked.path("alterations"))).all();
            case "reassign" -> admin.alterPartitionReassignments(Map.of(partition(asked), reassignment(asked))).all();
            case "elect" -> admin.electLeaders(election(asked), Set.of(partition(asked))).all();
            case "updateFeature" -> admin.updateFeatures(features(asked), new UpdateFeaturesOptions()).all();
            case "removeVoter" -> admin.removeRaftVoter(voter(asked), id(asked)).all();
            case "addVoter" -> admin.addRaftVoter(voter(asked), id(asked), Set.of(endpoint(asked))).all();
            default -> throw new IllegalArgumentException(asked.toString());
        };
    }

    static void produce(String servers, JsonNode asked) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int each = 0; each < asked.path("count").asInt(); each++) {
                producer.send(new ProducerRecord<>(text(asked, "topic"), "key " + each, "value " + each)).get();
            }
        }
    }

    static NewTopic topic(JsonNode asked) {
        String name = text(asked, "name");
        short replicas = (short) asked.path("replicas").asInt();
        NewTopic topic = asked.has("assignment")
                ? new NewTopic(name, byPartition(lists(asked.path("assignment"))))
                : new NewTopic(name, asked.path("partitions").asInt(), replicas);
        Map<String, String> configs = new HashMap<>();
        asked.path("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return topic.configs(configs);
    }

    static NewPartitions partitions(JsonNode asked) {
        int count = asked.path("count").asInt();
        return asked.has("assignment")
                ? NewPartitions.increaseTo(count, lists(asked.path("assignment")))
                : NewPartitions.increaseTo(count);
    }

    static ConfigResource resource(JsonNode asked) {
        return new ConfigResource(ConfigResource.Type.valueOf(text(asked, "type")), text(asked, "name"));
    }

    /** `"SET": {"retention.ms": "5"}`, and so for APPEND, SUBTRACT; `"DELETE": {"retention.ms": ""}`. */
    static List<AlterConfigOp> configs(JsonNode asked) {
        List<AlterConfigOp> found = new ArrayList<>();
        for (var type : AlterConfigOp.OpType.values()) {
            asked.path(type.name()).properties().forEach(entry ->
                    found.add(new AlterConfigOp(new ConfigEntry(entry.getKey(), entry.getValue().asText()), type)));
        }
        return found;
    }

    /** `"entity": {"user": "a", "client-id": null}` (null is the default), `"values": {"producer_byte_rate": 5.0}`. */
    static ClientQuotaAlteration quotas(JsonNode asked) {
        Map<String, String> entity = new HashMap<>();
        asked.path("entity").properties().forEach(entry -> entity.put(entry.getKey(), entry.getValue().textValue()));
        List<ClientQuotaAlteration.Op> values = new ArrayList<>();
        asked.path("values").properties().forEach(entry -> values.add(new ClientQuotaAlteration.Op(
                entry.getKey(), entry.getValue().isNull() ? null : entry.getValue().asDouble())));
        return new ClientQuotaAlteration(new ClientQuotaEntity(entity), values);
    }

    static AclBinding acl(JsonNode asked) {
        var pattern = new ResourcePattern(ResourceType.valueOf(text(asked, "type")), text(asked, "name"),
                PatternType.valueOf(text(asked, "pattern")));
        return new AclBinding(pattern, new AccessControlEntry(text(asked, "principal"), text(asked, "host"),
                AclOperation.valueOf(text(asked, "operation")), AclPermissionType.valueOf(text(asked, "permission"))));
    }

    static List<UserScramCredentialAlteration> scrams(JsonNode array) {
        List<UserScramCredentialAlteration> found = new ArrayList<>();
        array.forEach(each -> found.add(scram(each)));
        return found;
    }

    static UserScramCredentialAlteration scram(JsonNode asked) {
        var mechanism = ScramMechanism.valueOf(text(asked, "mechanism"));
        if (text(asked, "do").equals("deleteScram")) {
            return new UserScramCredentialDeletion(text(asked, "user"), mechanism);
        }
        var info = new ScramCredentialInfo(mechanism, asked.path("iterations").asInt());
        byte[] salt = ("salt of " + text(asked, "user")).getBytes(StandardCharsets.UTF_8);
        byte[] password = ("not a secret: " + text(asked, "user")).getBytes(StandardCharsets.UTF_8);
        return new UserScramCredentialUpsertion(text(asked, "user"), info, password, salt);
    }

    static Optional<NewPartitionReassignment> reassignment(JsonNode asked) {
        return asked.hasNonNull("replicas")
                ? Optional.of(new NewPartitionReassignment(integers(asked.path("replicas"))))
                : Optional.empty();
    }

    static ElectionType election(JsonNode asked) {
        return asked.path("unclean").asBoolean() ? ElectionType.UNCLEAN : ElectionType.PREFERRED;
    }

    static Map<String, FeatureUpdate> features(JsonNode asked) {
        var type = FeatureUpdate.UpgradeType.valueOf(asked.path("how").asText("UPGRADE"));
        return Map.of(text(asked, "name"), new FeatureUpdate((short) asked.path("level").asInt(), type));
    }

    static int voter(JsonNode asked) {
        return asked.path("voter").asInt();
    }

    static RaftVoterEndpoint endpoint(JsonNode asked) {
        return new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", asked.path("port").asInt());
    }

    static TopicPartition partition(JsonNode asked) {
        return new TopicPartition(text(asked, "topic"), asked.path("partition").asInt());
    }

    static Uuid id(JsonNode asked) {
        return Uuid.fromString(text(asked, "directory"));
    }

    static String text(JsonNode asked, String field) {
        if (!asked.hasNonNull(field)) {
            throw new IllegalArgumentException(field + " is missing: " + asked);
        }
        return asked.path(field).asText();
    }

    static Map<Integer, List<Integer>> byPartition(List<List<Integer>> assignment) {
        Map<Integer, List<Integer>> found = new HashMap<>();
        assignment.forEach(replicas -> found.put(found.size(), replicas));
        return found;
    }

    static List<List<Integer>> lists(JsonNode array) {
        List<List<Integer>> found = new ArrayList<>();
        array.forEach(each -> found.add(integers(each)));
        return found;
    }

    static List<Integer> integers(JsonNode array) {
        List<Integer> found = new ArrayList<>();
        array.forEach(each -> found.add(each.asInt()));
        return found;
    }
}

/** What an Admin client sees of a cluster, as plain lists and maps in a fixed order. */
final class Described {
    static final Set<ConfigResource.Type> LISTED =
            Set.of(ConfigResource.Type.CLIENT_METRICS, ConfigResource.Type.GROUP);

    static ObjectNode all(Admin admin) throws Exception {
        ObjectNode into = Drive.JSON.createObjectNode();
        var cluster = admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true));
        into.put("clusterId", cluster.clusterId().get());
        var brokers = into.putArray("brokers");
        for (var node : cluster.nodes().get().stream().sorted((a, b) -> a.id() - b.id()).toList()) {
            brokers.addObject().put("id", node.id()).put("host", node.host()).put("port", node.port())
                    .put("rack", node.rack()).put("fenced", node.isFenced());
        }
        var listed = admin.listTopics(new ListTopicsOptions().listInternal(true));
        var names = listed.names().get().stream().sorted().toList();
        topics(admin, names, into);
        configs(admin, names, cluster.nodes().get().stream().map(node -> node.id()).sorted().toList(), into);
        reassignments(admin, into);
        quotas(admin, into);
        acls(admin, into);
        users(admin, into);
        features(admin, into);
        quorum(admin, into);
        return into;
    }

    static void topics(Admin admin, List<String> names, ObjectNode into) throws Exception {
        var found = admin.describeTopics(names).allTopicNames().get();
        var topics = into.putObject("topics");
        for (String name : names) {
            var topic = topics.putObject(name).put("topicId", found.get(name).topicId().toString());
            var partitions = topic.put("internal", found.get(name).isInternal()).putArray("partitions");
            for (var partition : found.get(name).partitions()) {
                var each = partitions.addObject().put("partition", partition.partition());
                each.put("leader", partition.leader() == null ? -1 : partition.leader().id());
                ids(each, "replicas", partition.replicas());
                ids(each, "isr", partition.isr());
                ids(each, "elr", partition.elr());
                ids(each, "lastKnownElr", partition.lastKnownElr());
            }
        }
    }

    static void configs(Admin admin, List<String> topics, List<Integer> brokers, ObjectNode into) throws Exception {
        List<ConfigResource> resources = new ArrayList<>();
        topics.forEach(name -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, name)));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        brokers.forEach(id -> resources.add(new ConfigResource(ConfigResource.Type.BROKER, id.toString())));
        admin.listConfigResources(LISTED, new ListConfigResourcesOptions()).all().get().stream()
                .sorted((a, b) -> a.toString().compareTo(b.toString())).forEach(resources::add);
        var found = admin.describeConfigs(resources, new DescribeConfigsOptions().timeoutMs(3_000)).values();
        var configs = into.putArray("configs");
        for (var resource : resources) {
            var each = configs.addObject().put("type", resource.type().name()).put("name", resource.name());
            Config described;
            try {
                described = found.get(resource).get();
            } catch (ExecutionException gone) {  // a broker that is down cannot be asked about itself
                each.putNull("dynamic");
                continue;
            }
            var dynamic = each.putArray("dynamic");
            described.entries().stream().filter(entry -> entry.source().name().startsWith("DYNAMIC_"))
                    .sorted((a, b) -> a.name().compareTo(b.name()))
                    .forEach(entry -> dynamic.addObject().put("name", entry.name()).put("value", entry.value())
                            .put("source", entry.source().name()).put("sensitive", entry.isSensitive()));
        }
    }

    static void reassignments(Admin admin, ObjectNode into) throws Exception {
        var found = into.putArray("reassignments");
        admin.listPartitionReassignments().reassignments().get().entrySet().stream()
                .sorted((a, b) -> a.getKey().toString().compareTo(b.getKey().toString()))
                .forEach(entry -> {
                    var which = entry.getKey();
                    var each = found.addObject().put("topic", which.topic()).put("partition", which.partition());
                    each.set("replicas", Drive.JSON.valueToTree(entry.getValue().replicas()));
                    each.set("adding", Drive.JSON.valueToTree(entry.getValue().addingReplicas()));
                    each.set("removing", Drive.JSON.valueToTree(entry.getValue().removingReplicas()));
                });
    }

    static void quotas(Admin admin, ObjectNode into) throws Exception {
        var found = into.putArray("quotas");
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().entrySet().stream()
                .sorted((a, b) -> a.getKey().toString().compareTo(b.getKey().toString()))
                .forEach(entry -> {
                    var each = found.addObject();
                    each.set("entity", Drive.JSON.valueToTree(entry.getKey().entries()));
                    each.set("values", Drive.JSON.valueToTree(entry.getValue()));
                });
    }

    static void acls(Admin admin, ObjectNode into) throws Exception {
        var found = into.putArray("acls");
        admin.describeAcls(AclBindingFilter.ANY).values().get().stream()
                .sorted((a, b) -> a.toString().compareTo(b.toString()))
                .forEach(acl -> found.addObject().put("resourceType", acl.pattern().resourceType().code())
                        .put("resourceName", acl.pattern().name())
                        .put("patternType", acl.pattern().patternType().code())
                        .put("principal", acl.entry().principal()).put("host", acl.entry().host())
                        .put("operation", acl.entry().operation().code())
                        .put("permissionType", acl.entry().permissionType().code()));
    }

    static void users(Admin admin, ObjectNode into) throws Exception {
        var found = into.putArray("scram");
        admin.describeUserScramCredentials().all().get().entrySet().stream().sorted(Map.Entry.comparingByKey())
                .forEach(entry -> entry.getValue().credentialInfos().stream()
                        .sorted((a, b) -> a.mechanism().type() - b.mechanism().type())
                        .forEach(info -> found.addObject().put("user", entry.getKey())
                                .put("mechanism", info.mechanism().type()).put("iterations", info.iterations())));
    }

    static void features(Admin admin, ObjectNode into) throws Exception {
        var features = admin.describeFeatures().featureMetadata().get();
        var found = into.putObject("features");
        features.finalizedFeatures().entrySet().stream().sorted(Map.Entry.comparingByKey())
                .forEach(entry -> found.put(entry.getKey(), entry.getValue().maxVersionLevel()));
        into.put("featuresEpoch", features.finalizedFeaturesEpoch().orElse(-1L));
    }

    static void quorum(Admin admin, ObjectNode into) throws Exception {
        var quorum = admin.describeMetadataQuorum().quorumInfo().get();
        var found = into.putObject("quorum").put("leaderId", quorum.leaderId());
        found.put("leaderEpoch", quorum.leaderEpoch()).put("highWatermark", quorum.highWatermark());
        replicas(found, "voters", quorum.voters());
        replicas(found, "observers", quorum.observers());
    }

    static void replicas(ObjectNode into, String name, List<QuorumInfo.ReplicaState> states) {
        var found = into.putArray(name);
        states.stream().sorted((a, b) -> a.replicaId() - b.replicaId()).forEach(state -> found.addObject()
                .put("id", state.replicaId()).put("directoryId", state.replicaDirectoryId().toString())
                .put("logEndOffset", state.logEndOffset()));
    }

    static void ids(ObjectNode into, String name, List<org.apache.kafka.common.Node> nodes) {
        var found = into.putArray(name);
        if (nodes != null) {
            nodes.forEach(node -> found.add(node.id()));
        }
    }
}
