// Asks a Kafka release about random changes of SCRAM credentials, one after the other; JSON lines. The classes are not
// public: compile into their package.
//
//     javac -d "$OUT" -cp "$KAFKA_JARS" ScramCredentials.java
//     java -cp "$OUT:$KAFKA_JARS" org.apache.kafka.controller.ScramCredentials 5 160 > scram_credentials.jsonl

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData.ScramCredentialDeletion;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData.ScramCredentialUpsertion;
import org.apache.kafka.common.message.AlterUserScramCredentialsResponseDataJsonConverter;
import org.apache.kafka.common.message.DescribeUserScramCredentialsRequestData;
import org.apache.kafka.common.message.DescribeUserScramCredentialsRequestData.UserName;
import org.apache.kafka.common.message.DescribeUserScramCredentialsResponseDataJsonConverter;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.RemoveUserScramCredentialRecord;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.image.ScramDelta;
import org.apache.kafka.image.ScramImage;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

public class ScramCredentials {
    static final String[] USERS = {"alice", "bob", "carol", "dave", ""};
    static final int[] ITERATIONS = {4096, 4096, 8192, 16384, 4095, 16385, 0, -1};
    static Random random;
    static ScramImage image = ScramImage.EMPTY;

    public static void main(String[] args) {
        random = new Random(Long.parseLong(args[0]));
        ScramControlManager manager = new ScramControlManager.Builder().setLogContext(new LogContext())
            .setSnapshotRegistry(new SnapshotRegistry(new LogContext())).build();
        for (int i = 0; i < Integer.parseInt(args[1]); i++)
            System.out.println(random.nextInt(4) == 0 ? describe() : alter(manager));
    }

    static ObjectNode alter(ScramControlManager manager) {
        AlterUserScramCredentialsRequestData request = new AlterUserScramCredentialsRequestData();
        for (int i = random.nextInt(3); i > 0; i--)
            request.deletions().add(new ScramCredentialDeletion().setName(user()).setMechanism(mechanism()));
        for (int i = random.nextInt(4); i > 0; i--)
            request.upsertions().add(new ScramCredentialUpsertion().setName(user()).setMechanism(mechanism())
                .setIterations(ITERATIONS[random.nextInt(random.nextInt(3) == 0 ? ITERATIONS.length : 4)])
                .setSalt(bytes(random.nextInt(4))).setSaltedPassword(bytes(1 + random.nextInt(64))));
        short level = (short) (random.nextInt(10) == 0 ? 10 : 33);
        ControllerResult<?> result = manager.alterCredentials(request, MetadataVersion.fromFeatureLevel(level));
        ObjectNode json = json("alter", request).put("level", level).put("atomic", result.isAtomic());
        json.set("response", AlterUserScramCredentialsResponseDataJsonConverter.write(
            (org.apache.kafka.common.message.AlterUserScramCredentialsResponseData) result.response(), (short) 0));
        ArrayNode records = json.putArray("records");
        for (ApiMessageAndVersion each : result.records()) {
            // One delta for each record: of one that empties a mechanism and then fills it, Kafka's image loses the latter.
            ScramDelta delta = new ScramDelta(image);
            if (each.message() instanceof UserScramCredentialRecord record) {
                manager.replay(record);
                delta.replay(record);
            } else if (each.message() instanceof RemoveUserScramCredentialRecord record) {
                manager.replay(record);
                delta.replay(record);
            }
            image = delta.apply();
            records.add(MetadataJsonConverters.writeJson(each.message(), each.version()));
        }
        return json;
    }

    static ObjectNode describe() {
        DescribeUserScramCredentialsRequestData request = new DescribeUserScramCredentialsRequestData().setUsers(null);
        if (random.nextInt(3) > 0) {
            List<UserName> users = new ArrayList<>();
            for (int i = random.nextInt(4); i > 0; i--) users.add(new UserName().setName(user()));
            request.setUsers(users);
        }
        ObjectNode json = json("describe", request);
        JsonNode response = DescribeUserScramCredentialsResponseDataJsonConverter.write(image.describe(request), (short) 0);
        json.set("response", response);
        return json;
    }

    static ObjectNode json(String api, Message request) {
        ByteBufferAccessor written = MessageUtil.toByteBufferAccessor(request, (short) 0);
        byte[] bytes = new byte[written.buffer().remaining()];
        written.buffer().get(bytes);
        return JsonNodeFactory.instance.objectNode().put("api", api).put("request", Base64.getEncoder().encodeToString(bytes));
    }

    static String user() {
        return USERS[random.nextInt(random.nextInt(4) == 0 ? USERS.length : USERS.length - 1)];
    }

    static byte mechanism() {
        return (byte) (random.nextInt(10) == 0 ? random.nextInt(2) * 3 : 1 + random.nextInt(2));
    }

    static byte[] bytes(int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }
}
