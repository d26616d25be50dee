// Asks a Kafka release to create and delete random access control entries, one request after the other; JSON lines.
// The class is not public: compile into its package. The ids of entries are random, and are not told.
//
//     javac -d "$OUT" -cp "$KAFKA_JARS" AclChanges.java
//     java -cp "$OUT:$KAFKA_JARS" org.apache.kafka.controller.AclChanges 13 200 > acl_changes.jsonl

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.metadata.AccessControlEntryRecord;
import org.apache.kafka.common.metadata.RemoveAccessControlEntryRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class AclChanges {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String[] NAMES = {"a", "ab", "abc", "b", "*", "kafka-cluster"};
    static final String[] PRINCIPALS = {"User:alice", "User:bob", "User:*", "Group:a:b"};
    static final String[] HOSTS = {"*", "10.0.0.1", "10.0.0.0/8", "::/0", "nowhere"};
    static final String[] WRONG_HOSTS = {"", "10.0.0.0/33", "10.0.0/8", "10.0.0.256/8", "2001:db8::/129", "::ffff:10.0.0.1/96",
            "/", "10.0.0.0/8/8", "10.0.0.0/-1", "x/8"};
    static final MetadataVersion[] LEVELS = {MetadataVersion.IBP_4_4_IV0, MetadataVersion.IBP_4_4_IV1};
    /** Whatever has been asked for, and may be asked for again. */
    static final List<StandardAcl> MADE = new ArrayList<>();
    static Random random;

    public static void main(String[] args) throws Exception {
        random = new Random(Long.parseLong(args[0]));
        AclControlManager manager = new AclControlManager.Builder().build();
        for (int each = 0; each < Integer.parseInt(args[1]); each++) {
            ObjectNode line = JSON.createObjectNode();
            if (random.nextInt(3) > 0) {
                create(line, manager, LEVELS[random.nextInt(3) == 0 ? 0 : 1]);
            } else {
                delete(line, manager);
            }
            ArrayNode entries = line.putArray("entries");
            manager.idToAcl().values().stream().sorted().forEach(acl -> tell(entries, acl));
            System.out.println(JSON.writeValueAsString(line));
        }
    }

    static void create(ObjectNode line, AclControlManager manager, MetadataVersion level) {
        line.put("api", "create").put("level", level.featureLevel());
        ArrayNode asked = line.putArray("asked");
        List<AclBinding> bindings = new ArrayList<>();
        for (int each = random.nextInt(5); each >= 0; each--) {
            boolean again = !MADE.isEmpty() && random.nextInt(5) == 0;
            StandardAcl acl = again ? MADE.get(random.nextInt(MADE.size())) : acl();
            MADE.add(acl);
            tell(asked, acl);
            bindings.add(acl.toBinding());
        }
        ControllerResult<List<AclCreateResult>> result = manager.createAcls(bindings, level);
        ArrayNode errors = line.putArray("errors");
        result.response().forEach(each -> errors.add(code(each.exception())));
        line.put("records", result.records().size());
        for (ApiMessageAndVersion record : result.records()) {
            manager.replay((AccessControlEntryRecord) record.message());
        }
    }

    static void delete(ObjectNode line, AclControlManager manager) {
        line.put("api", "delete");
        ArrayNode asked = line.putArray("asked");
        List<AclBindingFilter> filters = new ArrayList<>();
        for (int each = random.nextInt(3); each >= 0; each--) {
            filters.add(filter(asked.addArray()));
        }
        ControllerResult<List<AclDeleteResult>> result = manager.deleteAcls(filters);
        ArrayNode errors = line.putArray("errors");
        ArrayNode matches = line.putArray("matches");
        for (AclDeleteResult each : result.response()) {
            errors.add(code(each.exception()));
            ArrayNode matched = matches.addArray();
            each.aclBindingDeleteResults().stream().map(one -> StandardAcl.fromAclBinding(one.aclBinding())).sorted()
                    .forEach(acl -> tell(matched, acl));
        }
        line.put("records", result.records().size());
        for (ApiMessageAndVersion record : result.records()) {
            manager.replay((RemoveAccessControlEntryRecord) record.message());
        }
    }

    /** Now and then with something that cannot be; what is for filters cannot even be in a binding. */
    static StandardAcl acl() {
        int wrong = random.nextInt(20);
        return new StandardAcl(
                wrong < 2 ? ResourceType.UNKNOWN : one(ResourceType.TOPIC, ResourceType.GROUP),
                wrong == 2 ? "" : one(NAMES),
                wrong == 3 ? PatternType.UNKNOWN : one(PatternType.LITERAL, PatternType.PREFIXED),
                wrong == 4 ? "nobody" : one(PRINCIPALS),
                wrong > 14 ? one(WRONG_HOSTS) : one(HOSTS),
                wrong == 5 ? AclOperation.UNKNOWN : one(AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE),
                wrong == 6 ? AclPermissionType.UNKNOWN : one(AclPermissionType.ALLOW, AclPermissionType.DENY));
    }

    static AclBindingFilter filter(ArrayNode told) {
        int wrong = random.nextInt(20);
        ResourceType type = wrong == 0 ? ResourceType.UNKNOWN
                : one(ResourceType.ANY, ResourceType.ANY, ResourceType.TOPIC, ResourceType.GROUP);
        String name = random.nextBoolean() ? null : one(NAMES);
        PatternType pattern = wrong == 1 ? PatternType.UNKNOWN
                : one(PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED);
        String principal = random.nextInt(3) > 0 ? null : one(PRINCIPALS);
        String host = random.nextInt(3) > 0 ? null : one(HOSTS);
        AclOperation operation = wrong == 2 ? AclOperation.UNKNOWN : one(AclOperation.ANY, AclOperation.READ, AclOperation.ALL);
        AclPermissionType permission = wrong == 3 ? AclPermissionType.UNKNOWN
                : one(AclPermissionType.ANY, AclPermissionType.ALLOW, AclPermissionType.DENY);
        told.add(type.code()).add(name).add(pattern.code()).add(principal).add(host).add(operation.code())
                .add(permission.code());
        return new AclBindingFilter(new ResourcePatternFilter(type, name, pattern),
                new AccessControlEntryFilter(principal, host, operation, permission));
    }

    static void tell(ArrayNode all, StandardAcl acl) {
        all.addArray().add(acl.resourceType().code()).add(acl.resourceName()).add(acl.patternType().code())
                .add(acl.principal()).add(acl.host()).add(acl.operation().code()).add(acl.permissionType().code());
    }

    static short code(Optional<ApiException> refused) {
        return refused.map(each -> Errors.forException(each).code()).orElse((short) 0);
    }

    @SafeVarargs
    static <T> T one(T... of) {
        return of[random.nextInt(of.length)];
    }
}
