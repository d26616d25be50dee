// Asks a Kafka release about random changes of client quotas, one request after the other, and after each what filters
// match; JSON lines. The class is not public: compile into its package.
//
//     javac -d "$OUT" -cp "$KAFKA_JARS" ClientQuotas.java
//     java -cp "$OUT:$KAFKA_JARS" org.apache.kafka.controller.ClientQuotas 11 80 > client_quotas.jsonl

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.DescribeClientQuotasRequestData;
import org.apache.kafka.common.message.DescribeClientQuotasRequestData.ComponentData;
import org.apache.kafka.common.message.DescribeClientQuotasResponseData;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.image.ClientQuotasDelta;
import org.apache.kafka.image.ClientQuotasImage;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

public class ClientQuotas {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String[][] TYPES = {{"user"}, {"user"}, {"client-id"}, {"client-id", "user"}, {"client-id", "user"},
            {"ip"}, {"ip"}, {"ip", "user"}, {"group"}, {}};
    static final String[] NAMES = {null, "a", "a", "b", "b", "10.0.0.1", ""};
    static final String[] ADDRESSES = {null, "10.0.0.1", "10.0.0.2", "::1"};
    static final String[] KEYS = {"producer_byte_rate", "consumer_byte_rate", "request_percentage",
            "controller_mutation_rate", "connection_creation_rate", "connection_creation_rate", "speed"};
    static final double[] VALUES = {1, 2, 2, 1024, 1.5, 1.0000001, 0.9999999, 0.0000005, 0, -1, 2147483647.0,
            2147483648.0, 9.223372036854775807E18, 1e19, Double.NaN, Double.POSITIVE_INFINITY};
    static Random random;

    public static void main(String[] args) throws Exception {
        random = new Random(Long.parseLong(args[0]));
        LogContext context = new LogContext();
        ClientQuotaControlManager manager = new ClientQuotaControlManager(context, new SnapshotRegistry(context));
        ClientQuotasImage image = ClientQuotasImage.EMPTY;
        for (int each = 0; each < Integer.parseInt(args[1]); each++) {
            ObjectNode line = JSON.createObjectNode();
            List<ClientQuotaAlteration> asked = alterations(line.putArray("asked"));
            ControllerResult<Map<ClientQuotaEntity, ApiError>> result = manager.alterClientQuotas(asked);
            ArrayNode errors = line.putArray("errors");
            for (ClientQuotaAlteration alteration : asked) {
                errors.add(result.response().get(alteration.entity()).error().code());
            }
            ClientQuotasDelta delta = new ClientQuotasDelta(image);
            line.put("records", result.records().size());
            for (ApiMessageAndVersion record : result.records()) {
                manager.replay((ClientQuotaRecord) record.message());
                delta.replay((ClientQuotaRecord) record.message());
            }
            image = delta.apply();
            ArrayNode described = line.putArray("described");
            describe(described.addObject(), image, new DescribeClientQuotasRequestData());
            for (int filter = 0; filter < 4; filter++) {
                describe(described.addObject(), image, filter());
            }
            System.out.println(JSON.writeValueAsString(line));
        }
    }

    /** Entities that differ: of two that are equal Kafka writes the first and answers with an error. */
    static List<ClientQuotaAlteration> alterations(ArrayNode asked) {
        List<ClientQuotaAlteration> made = new ArrayList<>();
        Set<ClientQuotaEntity> seen = new HashSet<>();
        for (int each = random.nextInt(4); each >= 0; each--) {
            Map<String, String> parts = new LinkedHashMap<>();
            for (String type : one(TYPES)) {
                parts.put(type, type.equals("ip") ? one(ADDRESSES) : one(NAMES));
            }
            ClientQuotaEntity entity = new ClientQuotaEntity(parts);
            if (!seen.add(entity)) {
                continue;
            }
            ObjectNode told = asked.addObject();
            ArrayNode told_parts = told.putArray("entity");
            parts.forEach((type, name) -> told_parts.addArray().add(type).add(name));
            ArrayNode told_ops = told.putArray("ops");
            List<ClientQuotaAlteration.Op> ops = new ArrayList<>();
            for (int op = random.nextInt(3); op >= 0; op--) {
                String key = random.nextInt(8) == 0 ? one(KEYS)
                        : parts.containsKey("ip") ? "connection_creation_rate" : KEYS[random.nextInt(4)];
                Double value = random.nextInt(4) == 0 ? null
                        : VALUES[random.nextInt(random.nextInt(4) > 0 ? 4 : VALUES.length)];
                ops.add(new ClientQuotaAlteration.Op(key, value));
                told_ops.addArray().add(key).add(value == null ? null : String.valueOf(value));
            }
            made.add(new ClientQuotaAlteration(entity, ops));
        }
        return made;
    }

    static DescribeClientQuotasRequestData filter() {
        DescribeClientQuotasRequestData filter = new DescribeClientQuotasRequestData().setStrict(random.nextBoolean());
        List<ComponentData> components = new ArrayList<>();
        for (int each = random.nextInt(10) == 0 ? 0 : 1 + random.nextInt(2); each > 0; each--) {
            String type = one(random.nextInt(12) == 0 ? new String[] {"", "group"} : new String[] {"user", "client-id", "ip"});
            int match = random.nextInt(12) == 0 ? 3 : random.nextInt(3);
            String name = (match == 0) == (random.nextInt(12) > 0) ? one(NAMES) : null;
            components.add(new ComponentData().setEntityType(type).setMatchType((byte) match).setMatch(name));
        }
        return filter.setComponents(components);
    }

    static void describe(ObjectNode told, ClientQuotasImage image, DescribeClientQuotasRequestData filter) {
        told.put("strict", filter.strict());
        ArrayNode components = told.putArray("components");
        for (ComponentData each : filter.components()) {
            components.addArray().add(each.entityType()).add(each.matchType()).add(each.match());
        }
        try {
            DescribeClientQuotasResponseData response = image.describe(filter);
            ArrayNode entries = told.put("error", 0).putArray("entries");
            response.entries().forEach(entry -> {
                ObjectNode one = entries.addObject();
                ArrayNode entity = one.putArray("entity");
                entry.entity().forEach(part -> entity.addArray().add(part.entityType()).add(part.entityName()));
                ObjectNode values = one.putObject("values");
                entry.values().forEach(value -> values.put(value.key(), String.valueOf(value.value())));
            });
        } catch (ApiException refused) {
            told.put("error", Errors.forException(refused).code());
        }
    }

    static <T> T one(T[] of) {
        return of[random.nextInt(of.length)];
    }
}
