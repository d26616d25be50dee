import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Writes what a release's own serializer makes of messages, one JSON object a line: for every metadata record,
 * control record, header and RPC of the given api keys (first argument, comma-separated), at every version, an
 * instance with default values, one with every field filled, and, where a field can be null, one with all those null.
 * Values come from the message schemas in the release's jars; nothing here is written by hand for one message.
 */
public final class Golden {
    static final ObjectMapper JSON = JsonMapper.builder().enable(JsonReadFeature.ALLOW_JAVA_COMMENTS).build();
    static final Set<String> CONTROL = Set.of("LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord",
            "KRaftVersionRecord", "VotersRecord");
    static final Set<String> HEADERS = Set.of("RequestHeader", "ResponseHeader", "DefaultPrincipalData");

    public static void main(String[] arguments) throws Exception {
        Set<Integer> keys = Stream.of(arguments[0].split(",")).map(Integer::parseInt).collect(Collectors.toSet());
        for (JsonNode schema : schemas()) {
            String type = schema.path("type").asText();
            boolean control = CONTROL.contains(schema.path("name").asText());
            boolean rpc = Set.of("request", "response").contains(type) && keys.contains(schema.path("apiKey").asInt());
            boolean header = HEADERS.contains(schema.path("name").asText());
            if (type.equals("metadata") || control || header || rpc) {
                new Golden(schema, control ? "control" : header ? "protocol" : type).writeAll();
            }
        }
    }

    /** The message schemas of all jars on the class path, by name. */
    static List<JsonNode> schemas() throws Exception {
        List<JsonNode> found = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(":")) {
            if (!path.matches(".*/kafka-(clients|metadata)-[0-9.]+\\.jar")) {
                continue;
            }
            try (var jar = new JarFile(path)) {
                var names = jar.stream().map(Object::toString)
                        .filter(each -> each.matches("common/(message|metadata)/.*\\.json"))
                        .collect(Collectors.toCollection(TreeSet::new));
                for (String name : names) {
                    try (InputStream text = jar.getInputStream(jar.getEntry(name))) {
                        found.add(JSON.readTree(text));
                    }
                }
            }
        }
        return found;
    }

    /** Beyond ASCII, beyond the basic plane, and with a length that takes two bytes. */
    static final String LONG = "\u00e9\u4e16\ud83d\ude00 " + "long ".repeat(30);

    final JsonNode schema;
    final String kind;
    final String name;
    final Class<?> message;
    final Class<?> converter;
    final Map<String, JsonNode> structs = new HashMap<>();
    int counter;
    boolean nulls;

    Golden(JsonNode schema, String kind) throws ClassNotFoundException {
        this.schema = schema;
        this.kind = kind;
        name = schema.path("name").asText();
        boolean rpc = Set.of("request", "response", "header").contains(schema.path("type").asText());
        String inside = kind.equals("metadata") ? "metadata." : "message.";
        String qualified = "org.apache.kafka.common." + inside + name + (rpc ? "Data" : "");
        message = Class.forName(qualified);
        converter = Class.forName(qualified + "JsonConverter");
        schema.path("commonStructs").forEach(each -> structs.put(each.path("name").asText(), each));
    }

    void writeAll() throws Exception {
        for (short version : versions()) {
            Message plain = (Message) message.getConstructor().newInstance();
            write("default", version, plain, call("write", plain, version));
            ObjectNode filled = filled(version, false);
            write("filled", version, call("read", filled, version), filled);
            ObjectNode nulled = filled(version, true);
            if (!nulled.equals(filled)) {
                write("null", version, call("read", nulled, version), nulled);
            }
        }
    }

    List<Short> versions() {
        List<Short> found = new ArrayList<>();
        for (int version = 0; version < 100; version++) {
            if (has(schema, "validVersions", version)) {
                found.add((short) version);
            }
        }
        return found;
    }

    void write(String instance, short version, Message made, JsonNode json) throws Exception {
        var cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(made.size(cache, version));
        made.write(new ByteBufferAccessor(buffer), cache, version);
        ObjectNode line = JSON.createObjectNode().put("kind", kind).put("type", name).put("instance", instance);
        line.put("apiKey", schema.has("apiKey") ? schema.path("apiKey").asInt() : null).put("version", version);
        line.set("json", json);
        line.put("hex", HexFormat.of().formatHex(buffer.array()));
        System.out.println(JSON.writeValueAsString(line));
    }

    ObjectNode filled(short version, boolean withNulls) {
        counter = 0;
        nulls = withNulls;
        return fields(schema.path("fields"), version);
    }

    @SuppressWarnings("unchecked")
    <T> T call(String method, Object argument, short version) throws Exception {
        Class<?> takes = method.equals("read") ? JsonNode.class : message;
        try {
            return (T) converter.getMethod(method, takes, short.class).invoke(null, argument, version);
        } catch (InvocationTargetException failed) {
            throw new IllegalStateException(name + " version " + version + ": " + argument, failed.getCause());
        }
    }

    ObjectNode fields(JsonNode fields, int version) {
        ObjectNode made = JSON.createObjectNode();
        for (JsonNode field : fields) {
            if (has(field, "versions", version) || has(field, "taggedVersions", version)) {
                boolean isNull = nulls && has(field, "nullableVersions", version);
                JsonNode value = isNull ? JsonNodeFactory.instance.nullNode() : value(field, version);
                made.set(camel(field.path("name").asText()), value);
            }
        }
        return made;
    }

    JsonNode value(JsonNode field, int version) {
        String type = field.path("type").asText();
        if (!type.startsWith("[]")) {
            return one(type, field, version);
        }
        var made = JSON.createArrayNode();
        IntStream.range(0, 2).forEach(each -> made.add(one(type.substring(2), field, version)));
        return made;
    }

    /** A value that differs from field to field, so that two fields cannot be mistaken for each other. */
    JsonNode one(String type, JsonNode field, int version) {
        int next = ++counter;
        var make = JsonNodeFactory.instance;
        return switch (type) {
            case "bool" -> make.booleanNode(!field.path("default").asText().equals("true"));
            case "int8" -> make.numberNode(next % 2 == 0 ? next % 128 : -(next % 128));
            case "int16" -> make.numberNode(next % 2 == 0 ? 300 + next : -300 - next);
            case "uint16" -> make.numberNode(40_000 + next);
            case "int32" -> make.numberNode(next % 2 == 0 ? 70_000 + next : -70_000 - next);
            case "uint32" -> make.numberNode(4_000_000_000L + next);
            case "int64" -> make.numberNode(next % 2 == 0 ? 5_000_000_000L + next : -5_000_000_000L - next);
            case "float64" -> make.numberNode(next + 0.25);
            case "string" -> make.textNode((next % 8 == 0 ? LONG : field.path("name").asText()) + " " + next);
            case "uuid" -> make.textNode(new Uuid(0x1111_2222_3333_0000L, 0x4444_5555_6666_0000L + next).toString());
            case "bytes", "records" -> make.binaryNode(("bytes " + next).getBytes(StandardCharsets.UTF_8));
            default -> fields(structs.getOrDefault(type, field).path("fields"), version);
        };
    }

    /** Whether a range of versions, such as "3+", "1-4", "2" or "none", has this one. */
    static boolean has(JsonNode of, String range, int version) {
        String versions = of.path(range).asText("none");
        if (versions.equals("none") || versions.isEmpty()) {
            return false;
        }
        if (versions.endsWith("+")) {
            return version >= Integer.parseInt(versions.substring(0, versions.length() - 1));
        }
        String[] ends = versions.split("-");
        return version >= Integer.parseInt(ends[0]) && version <= Integer.parseInt(ends[ends.length - 1]);
    }

    static String camel(String field) {
        return Character.toLowerCase(field.charAt(0)) + field.substring(1);
    }
}
