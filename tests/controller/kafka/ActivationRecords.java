// Asks a Kafka release what a new active controller writes first; JSON lines. Its methods are not public: compile into its package.
//
//     javac -d "$OUT" -cp "$KAFKA_JARS" ActivationRecords.java
//     java -cp "$OUT:$KAFKA_JARS" org.apache.kafka.controller.ActivationRecords > activation_records.jsonl

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class ActivationRecords {
    public static void main(String[] args) {
        for (int level : new int[] {7, 8, 12, 13, 21, 25, 33})
            for (boolean elr : new boolean[] {false, true})
                for (boolean empty : new boolean[] {true, false})
                    for (long start : new long[] {-1, 5}) if (!elr || level >= 23) one((short) level, elr, empty, start);
    }

    static void one(short level, boolean elr, boolean empty, long transactionStart) {
        List<ApiMessageAndVersion> given = new ArrayList<>();
        given.add(feature("metadata.version", level));
        if (elr) given.add(feature("eligible.leader.replicas.version", (short) 1));
        ObjectNode json = JsonNodeFactory.instance.objectNode().put("level", level).put("elr", elr).put("empty", empty)
            .put("transaction_start", transactionStart).put("default_min_isr", 2);
        try {
            ControllerResult<Void> result = ActivationRecordsGenerator.generate(message -> { }, transactionStart,
                BootstrapMetadata.fromRecords(given, "test"),
                empty ? Optional.empty() : Optional.of(MetadataVersion.fromFeatureLevel(level)), 2);
            json.put("atomic", result.isAtomic());
            ArrayNode records = json.putArray("records");
            for (ApiMessageAndVersion record : result.records()) {
                short key = record.message().apiKey();
                records.addObject().put("type", MetadataRecordType.fromId(key).name()).put("version", record.version())
                    .set("data", MetadataJsonConverters.writeJson(record.message(), record.version()));
            }
        } catch (RuntimeException refused) {
            json.put("refused", refused.getMessage() != null);
        }
        System.out.println(json);
    }

    static ApiMessageAndVersion feature(String name, short level) {
        return new ApiMessageAndVersion(new FeatureLevelRecord().setName(name).setFeatureLevel(level), (short) 0);
    }
}
