import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Writes what a release's StandardAuthorizer decides: for each of so many random worlds (second argument) from a seed
 * (first argument) one JSON object a line, with the world's entries, settings, and random requests, each with ALLOWED or
 * DENIED at its end. The numbers are those of the wire.
 */
public final class Decisions {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int REQUESTS = 40;
    static final int ANY_REQUESTS = 5;

    /**
     * Few letters, so that names are each other's prefixes. None sorts before the wildcard: asked about "!" where an
     * entry names "!a", 4.4.0 never comes back, and where the two have more in common it throws.
     */
    static final String[] NAMES = {"*", "a", "ab", "abc", "abd", "b", "ba", "a*", "*a", "**", "\u00e9", "\u00e9a",
            "\ud83d\ude00", "\ud83d\ude00a", "h", "hardcode", "kafka-cluster"};
    static final String[] PRINCIPALS = {"User:alice", "User:bob", "User:*", "Group:alice", "User:CN=a:b"};
    static final String[] HOSTS = {"*", "10.0.0.1", "10.1.2.3", "0:0:0:0:0:0:0:1", "::1", "10.0.0.0/8", "10.1.0.0/16",
            "10.1.2.3/32", "10.1.2.99/25", "0.0.0.0/0", "2001:db8::/32", "::/0", "::1/128", "10.0.0.0/33", "nowhere"};
    static final String[] ADDRESSES = {"10.0.0.1", "10.1.2.3", "10.1.2.200", "192.168.0.1", "::1", "2001:db8::5",
            "2001:db9::5", "::ffff:10.1.2.3"};
    static final String[] ASKERS = {"alice", "bob", "carol", "admin", "CN=a:b"};

    record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "CONTROLLER";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 3;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "judge";
        }

        public int correlationId() {
            return 0;
        }
    }

    final Random random;
    final ObjectNode line = JSON.createObjectNode();
    final StandardAuthorizer authorizer = new StandardAuthorizer();

    Decisions(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        long seed = Long.parseLong(arguments[0]);
        int worlds = Integer.parseInt(arguments[1]);
        for (int world = 0; world < worlds; world++) {
            new Decisions(seed * 1_000_003 + world).write(world);
        }
    }

    void write(int world) throws Exception {
        configure();
        entries(random.nextInt(4) == 0 ? random.nextInt(4) : random.nextInt(40));
        ArrayNode decisions = line.putArray("decisions");
        for (int each = 0; each < REQUESTS; each++) {
            decide(decisions);
        }
        ArrayNode any = line.putArray("any");
        for (int each = 0; each < ANY_REQUESTS; each++) {
            decideOnAny(any);
        }
        System.out.println(JSON.writeValueAsString(line.put("world", world)));
    }

    void configure() {
        String superUsers = random.nextInt(3) == 0 ? "User:admin; User:CN=a:b" : "";
        boolean open = random.nextInt(3) == 0;
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", open, "node.id", 1));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new LinkedHashMap<>()));
        line.put("superUsers", superUsers).put("open", open);
    }

    void entries(int count) {
        ArrayNode entries = line.putArray("entries");
        Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
        for (int each = 0; each < count; each++) {
            StandardAcl acl = new StandardAcl(resourceType(), one(NAMES),
                    random.nextBoolean() ? PatternType.LITERAL : PatternType.PREFIXED, one(PRINCIPALS),
                    random.nextBoolean() ? "*" : one(HOSTS), operation(true),
                    random.nextInt(4) == 0 ? AclPermissionType.DENY : AclPermissionType.ALLOW);
            if (acls.containsValue(acl)) {
                continue;
            }
            acls.put(new Uuid(1, each + 1), acl);
            entries.addArray().add(acl.resourceType().code()).add(acl.resourceName()).add(acl.patternType().code())
                    .add(acl.principal()).add(acl.host()).add(acl.operation().code()).add(acl.permissionType().code());
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
    }

    void decide(ArrayNode decisions) throws UnknownHostException {
        Asker asker = asker();
        AclOperation operation = operation(false);
        ResourcePattern resource = new ResourcePattern(resourceType(), one(NAMES), PatternType.LITERAL);
        AuthorizationResult result =
                authorizer.authorize(asker, List.of(new Action(operation, resource, 1, false, false))).get(0);
        asked(decisions, asker).add(operation.code()).add(resource.resourceType().code()).add(resource.name())
                .add(result.name());
    }

    void decideOnAny(ArrayNode any) throws UnknownHostException {
        Asker asker = asker();
        AclOperation operation = operation(false);
        ResourceType type = resourceType();
        AuthorizationResult result = authorizer.authorizeByResourceType(asker, operation, type);
        asked(any, asker).add(operation.code()).add(type.code()).add(result.name());
    }

    Asker asker() throws UnknownHostException {
        // Nobody is "User:*": 4.4.0 throws.
        KafkaPrincipal principal = random.nextInt(8) > 0 ? new KafkaPrincipal("User", one(ASKERS))
                : new KafkaPrincipal("Group", random.nextBoolean() ? "alice" : "*");
        return new Asker(principal, InetAddress.getByName(one(ADDRESSES)));
    }

    ArrayNode asked(ArrayNode all, Asker asker) {
        return all.addArray().add(asker.principal().getPrincipalType()).add(asker.principal().getName())
                .add(asker.clientAddress().getHostAddress());
    }

    /** Mostly one type, so that entries and requests meet. */
    ResourceType resourceType() {
        return random.nextInt(4) > 0 ? ResourceType.GROUP
                : random.nextBoolean() ? ResourceType.TOPIC : ResourceType.CLUSTER;
    }

    AclOperation operation(boolean all) {
        List<AclOperation> common = List.of(AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE,
                AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS, AclOperation.DELETE);
        if (random.nextInt(3) > 0) {
            return common.get(random.nextInt(common.size()));
        }
        int lowest = all ? AclOperation.ALL.code() : AclOperation.READ.code();
        return AclOperation.fromCode((byte) (lowest + random.nextInt(AclOperation.TWO_PHASE_COMMIT.code() - lowest + 1)));
    }

    String one(String[] of) {
        return of[random.nextInt(of.length)];
    }
}
