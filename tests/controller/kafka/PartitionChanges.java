// Asks a Kafka release what becomes of random partitions under random wishes; one JSON object a line.
//
//     java -cp "$KAFKA_JARS" PartitionChanges.java 7 600 > partition_changes.jsonl

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class PartitionChanges {
    static final short[] LEVELS = {7, 11, 12, 16, 17, 22, 23, 25, 30, 33};
    static Random random;

    public static void main(String[] args) {
        random = new Random(Long.parseLong(args[0]));
        for (int i = 0; i < Integer.parseInt(args[1]); i++) System.out.println(one());
    }

    static List<Integer> some(List<Integer> from) {
        List<Integer> picked = new ArrayList<>();
        for (int x : from) if (random.nextBoolean()) picked.add(x);
        return picked;
    }

    static int[] ints(List<Integer> list) {
        return list.stream().mapToInt(x -> x).toArray();
    }

    static String one() {
        List<Integer> brokers = new ArrayList<>(List.of(0, 1, 2, 3, 4, 5, 6));
        Collections.shuffle(brokers, random);
        List<Integer> replicas = new ArrayList<>(brokers.subList(0, 1 + random.nextInt(5)));
        short level = LEVELS[random.nextInt(LEVELS.length)];
        boolean elrEnabled = level >= 23 && random.nextInt(3) > 0;
        int minIsr = 1 + random.nextInt(replicas.size());

        List<Integer> isr = some(replicas);
        // Without the ELR an ISR is empty only where it was when the ELR was turned off.
        if (isr.isEmpty() && !elrEnabled && (level < 23 || random.nextBoolean())) isr = List.of(replicas.get(0));
        List<Integer> elr = new ArrayList<>();
        List<Integer> lastKnown = new ArrayList<>();
        if (level >= 23 && isr.size() < minIsr) {
            elr = some(replicas);
            elr.removeAll(isr);
            List<Integer> outside = new ArrayList<>(replicas);
            outside.removeAll(isr);
            if (isr.isEmpty() && random.nextBoolean()) lastKnown.add(outside.get(random.nextInt(outside.size())));
        }
        int leader = isr.isEmpty() || random.nextInt(5) == 0 ? -1 : isr.get(random.nextInt(isr.size()));
        if (leader != -1) lastKnown.clear();
        // One who was remembered when the ELR was turned off, and another has led since.
        if (level >= 23 && leader != -1 && random.nextInt(5) == 0)
            lastKnown.add(replicas.get(random.nextInt(replicas.size())));
        List<Integer> adding = new ArrayList<>();
        List<Integer> removing = new ArrayList<>();
        if (random.nextInt(3) == 0) {
            adding = some(replicas);
            removing = some(replicas);
            removing.removeAll(adding);
        }
        Uuid[] directories = new Uuid[replicas.size()];
        for (int i = 0; i < directories.length; i++) directories[i] = directory();
        LeaderRecoveryState recovery = isr.size() == 1 && random.nextInt(4) == 0
            ? LeaderRecoveryState.RECOVERING : LeaderRecoveryState.RECOVERED;
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(ints(replicas)).setDirectories(directories).setIsr(ints(isr))
            .setRemovingReplicas(ints(removing)).setAddingReplicas(ints(adding))
            .setElr(ints(elr)).setLastKnownElr(ints(lastKnown)).setLeader(leader)
            .setLeaderRecoveryState(recovery).setLeaderEpoch(3).setPartitionEpoch(5).build();

        TreeSet<Integer> acceptable = new TreeSet<>(some(brokers));
        if (leader != -1) acceptable.add(leader);
        int broker = replicas.get(random.nextInt(replicas.size()));
        List<Integer> targetReplicas = replicas;
        List<Integer> targetIsr = null;
        List<Integer> targetAdding = null;
        List<Integer> targetRemoving = null;
        List<Integer> unclean = null;
        boolean leaderAsks = false;
        switch (random.nextInt(6)) {
            case 0 -> {  // an election
            }
            case 1 -> {  // a broker is fenced or goes
                acceptable.remove(broker);
                targetIsr = new ArrayList<>(isr);
                targetIsr.remove((Integer) broker);
            }
            case 2 -> {  // a broker comes back that had not said goodbye
                acceptable.remove(broker);
                targetIsr = new ArrayList<>(isr);
                targetIsr.remove((Integer) broker);
                unclean = List.of(broker);
            }
            case 3 -> {  // the leader changes the ISR
                leaderAsks = true;  // AlterPartition never asks for an election
                if (leader != -1) {
                    targetIsr = some(replicas);
                    if (!targetIsr.contains(leader)) targetIsr.add(leader);
                }
            }
            case 4 -> {  // a reassignment begins, or takes another goal
                List<Integer> goal = new ArrayList<>(brokers);
                Collections.shuffle(goal, random);
                goal = goal.subList(0, 1 + random.nextInt(4));
                List<Integer> old = new ArrayList<>(replicas);
                old.removeAll(adding);
                targetAdding = new ArrayList<>(goal);
                targetAdding.removeAll(old);
                targetRemoving = new ArrayList<>(old);
                targetRemoving.removeAll(goal);
                targetReplicas = new ArrayList<>(goal);
                targetReplicas.addAll(targetRemoving);
                if (random.nextInt(3) == 0) acceptable.retainAll(some(brokers));
                targetIsr = new ArrayList<>(isr);
                targetIsr.retainAll(targetReplicas);
                if (targetIsr.isEmpty()) targetIsr = isr;
                for (int replica : isr) if (!targetIsr.contains(replica)) acceptable.remove(replica);
            }
            default -> {  // brokers have gone, unnoticed so far
                acceptable.retainAll(some(brokers));
            }
        }
        PartitionChangeBuilder.Election election =
            PartitionChangeBuilder.Election.values()[leaderAsks ? 1 : random.nextInt(3)];
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            partition, new Uuid(0, 77), 4, acceptable::contains,
            MetadataVersion.fromFeatureLevel(level), minIsr, elrEnabled);
        builder.setElection(election).setDefaultDirProvider(id -> new Uuid(1, id));

        StringBuilder wish = new StringBuilder();
        if (targetAdding != null) {
            builder.setTargetReplicas(targetReplicas).setTargetAdding(targetAdding).setTargetRemoving(targetRemoving);
            wish.append(",\"replicas\":").append(targetReplicas).append(",\"adding\":").append(targetAdding)
                .append(",\"removing\":").append(targetRemoving);
        }
        if (targetIsr != null) {
            builder.setTargetIsr(targetIsr);
            wish.append(",\"isr\":").append(targetIsr);
        }
        if (unclean != null && elrEnabled) {
            builder.setUncleanShutdownReplicas(unclean);
            wish.append(",\"unclean_shutdown\":").append(unclean);
        }
        if (recovery == LeaderRecoveryState.RECOVERING && targetIsr != null && targetIsr.contains(leader)
                && acceptable.contains(leader) && targetAdding == null) {
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.RECOVERED);
            wish.append(",\"recovered\":true");
        }

        Optional<ApiMessageAndVersion> built = builder.build();
        String record = "null";
        short version = 0;
        if (built.isPresent()) {
            version = built.get().version();
            record = MetadataJsonConverters.writeJson((PartitionChangeRecord) built.get().message(), version).toString();
        }
        StringBuilder dirs = new StringBuilder();
        for (Uuid d : directories) dirs.append(dirs.length() == 0 ? "" : ",").append('"').append(d).append('"');
        return "{\"level\":" + level + ",\"elr_enabled\":" + elrEnabled + ",\"min_isr\":" + minIsr
            + ",\"acceptable\":" + acceptable + ",\"election\":\"" + election + "\""
            + ",\"partition\":{\"replicas\":" + replicas + ",\"directories\":[" + dirs + "],\"isr\":" + isr
            + ",\"removing\":" + removing + ",\"adding\":" + adding + ",\"elr\":" + elr + ",\"last_known_elr\":" + lastKnown
            + ",\"leader\":" + leader + ",\"recovering\":" + (recovery == LeaderRecoveryState.RECOVERING) + "}"
            + ",\"wish\":{" + (wish.length() == 0 ? "" : wish.substring(1)) + "}"
            + ",\"version\":" + version + ",\"record\":" + record + "}";
    }

    static Uuid directory() {
        return switch (random.nextInt(4)) {
            case 0 -> new Uuid(0, random.nextInt(2));  // MIGRATING or UNASSIGNED
            default -> new Uuid(random.nextInt(1000) + 9, random.nextInt(1000));
        };
    }
}
