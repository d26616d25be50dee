// Asks a Kafka release about random requests for delegation tokens, one after the other, while time passes; JSON lines.
// The classes are not public: compile into their package. Token ids are random: the file is another after each run.
//
//     javac -d "$OUT" -cp "$KAFKA_JARS" DelegationTokens.java
//     java -cp "$OUT:$KAFKA_JARS" org.apache.kafka.controller.DelegationTokens 3 400 > delegation_tokens.jsonl

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData.CreatableRenewers;
import org.apache.kafka.common.message.CreateDelegationTokenRequestDataJsonConverter;
import org.apache.kafka.common.message.CreateDelegationTokenResponseData;
import org.apache.kafka.common.message.CreateDelegationTokenResponseDataJsonConverter;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestDataJsonConverter;
import org.apache.kafka.common.message.ExpireDelegationTokenResponseData;
import org.apache.kafka.common.message.ExpireDelegationTokenResponseDataJsonConverter;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestDataJsonConverter;
import org.apache.kafka.common.message.RenewDelegationTokenResponseData;
import org.apache.kafka.common.message.RenewDelegationTokenResponseDataJsonConverter;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.DelegationTokenRecord;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.RemoveDelegationTokenRecord;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.metadata.DelegationTokenData;
import org.apache.kafka.security.DelegationTokenManager;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class DelegationTokens {
    static final String KEY = "the secret key of a test";
    static final long MAX_LIFETIME_MS = 1000;
    static final long EXPIRY_TIME_MS = 300;
    static final String[] USERS = {"alice", "bob", "carol"};
    static final DelegationTokenCache CACHE = new DelegationTokenCache(List.of());
    static final List<byte[]> HMACS = new ArrayList<>();
    static Random random;
    static long now = 1_000_000;

    public static void main(String[] args) throws Exception {
        random = new Random(Long.parseLong(args[0]));
        DelegationTokenControlManager on = manager(KEY);
        DelegationTokenControlManager off = manager(null);
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            now += random.nextInt(3) * random.nextInt(40);
            boolean isOn = random.nextInt(15) > 0;
            short level = (short) (random.nextInt(15) > 0 ? 33 : 13);
            ObjectNode json = one(isOn ? on : off, level);
            System.out.println(json.put("now", now).put("on", isOn).put("level", level));
        }
    }

    static DelegationTokenControlManager manager(String key) throws Exception {
        DelegationTokenControlManager made = new DelegationTokenControlManager.Builder().setLogContext(new LogContext())
            .setTokenCache(CACHE).setDelegationTokenSecretKey(key).setDelegationTokenMaxLifeMs(MAX_LIFETIME_MS)
            .setDelegationTokenExpiryTimeMs(EXPIRY_TIME_MS).build();
        Field time = DelegationTokenControlManager.class.getDeclaredField("time");
        time.setAccessible(true);
        time.set(made, Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class}, (self, method, arguments) -> now));
        return made;
    }

    static ObjectNode one(DelegationTokenControlManager manager, short level) throws Exception {
        KafkaPrincipal who = new KafkaPrincipal(random.nextInt(20) == 0 ? "Group" : "User", user());
        ControllerRequestContext context = new ControllerRequestContext(new RequestHeaderData(), who, OptionalLong.empty());
        MetadataVersion version = MetadataVersion.fromFeatureLevel(level);
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("principal", who.toString());
        switch (random.nextInt(8)) {
            case 0: case 1: {
                CreateDelegationTokenRequestData request = new CreateDelegationTokenRequestData().setOwnerPrincipalName(null)
                    .setOwnerPrincipalType(null).setMaxLifetimeMs(new long[] {-1, 0, 1, 150, 700, 5000, Long.MAX_VALUE}[random.nextInt(7)]);
                if (random.nextInt(3) == 0)
                    request.setOwnerPrincipalType("User").setOwnerPrincipalName(random.nextInt(5) == 0 ? "" : user());
                for (int i = random.nextInt(3); i > 0; i--)
                    request.renewers().add(new CreatableRenewers().setPrincipalName(user())
                        .setPrincipalType(random.nextInt(8) == 0 ? "Group" : "User"));
                ControllerResult<CreateDelegationTokenResponseData> result = manager.createDelegationToken(context, request, version);
                return filled(json.put("api", "create"), CreateDelegationTokenRequestDataJsonConverter.write(request, (short) 3),
                    CreateDelegationTokenResponseDataJsonConverter.write(result.response(), (short) 3), result);
            }
            case 2: case 3: case 4: {
                RenewDelegationTokenRequestData request = new RenewDelegationTokenRequestData().setHmac(hmac())
                    .setRenewPeriodMs(new long[] {-1, 0, 1, 100, 5000}[random.nextInt(5)]);
                ControllerResult<RenewDelegationTokenResponseData> result = manager.renewDelegationToken(context, request, version);
                return filled(json.put("api", "renew"), RenewDelegationTokenRequestDataJsonConverter.write(request, (short) 2),
                    RenewDelegationTokenResponseDataJsonConverter.write(result.response(), (short) 2), result);
            }
            case 5: case 6: {
                ExpireDelegationTokenRequestData request = new ExpireDelegationTokenRequestData().setHmac(hmac())
                    .setExpiryTimePeriodMs(new long[] {-1, 0, 1, 100, 5000, Long.MAX_VALUE}[random.nextInt(6)]);
                ControllerResult<ExpireDelegationTokenResponseData> result = manager.expireDelegationToken(context, request, version);
                return filled(json.put("api", "expire"), ExpireDelegationTokenRequestDataJsonConverter.write(request, (short) 2),
                    ExpireDelegationTokenResponseDataJsonConverter.write(result.response(), (short) 2), result);
            }
            default: {
                // Seldom, so that requests meet tokens that have expired.
                if (random.nextInt(3) > 0) return one(manager, level);
                ControllerResult<Boolean> result = manager.sweepExpiredDelegationTokens();
                return filled(json.put("api", "sweep"), null, null, result);
            }
        }
    }

    static ObjectNode filled(ObjectNode json, JsonNode request, JsonNode response, ControllerResult<?> result) throws Exception {
        json.set("request", request);
        json.set("response", response);
        ArrayNode records = json.putArray("records");
        for (ApiMessageAndVersion each : result.records()) {
            records.add(MetadataJsonConverters.writeJson(each.message(), each.version()));
            if (each.message() instanceof DelegationTokenRecord record) {
                DelegationTokenData data = DelegationTokenData.fromRecord(record);
                byte[] hmac = DelegationTokenManager.createHmac(record.tokenId(), new SecretKeySpec(KEY.getBytes("UTF-8"), "HmacSHA512"));
                CACHE.updateCache(new DelegationToken(data.tokenInformation(), hmac), Map.of());
                if (HMACS.stream().noneMatch(known -> java.util.Arrays.equals(known, hmac))) HMACS.add(hmac);
            } else {
                CACHE.removeCache(((RemoveDelegationTokenRecord) each.message()).tokenId());
            }
        }
        return json;
    }

    static byte[] hmac() {
        if (HMACS.isEmpty() || random.nextInt(12) == 0) return new byte[] {1, 2, 3};
        return HMACS.get(Math.max(0, HMACS.size() - 1 - random.nextInt(6)));
    }

    static String user() {
        return USERS[random.nextInt(USERS.length)];
    }
}
