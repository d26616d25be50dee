#!/usr/bin/env bash
# Apache Kafka 4.3.1: min.insync.replicas in a broker's own file has no effect in a new cluster, whose metadata version
# has eligible leader replicas (KIP-966) on by default. The controllers write a default for the whole cluster from their
# own file, 1 if that names none, when they activate; and a default of the cluster comes before a file.
#
# So an operator who sets 2 where it has always been set, in each broker's server.properties, and runs controllers apart,
# has topics with 1: a producer with acks=all is answered although one replica alone has the record. Nothing is logged
# at the broker. It shows in a topic's description, as DYNAMIC_DEFAULT_BROKER_CONFIG, which comes before
# STATIC_BROKER_CONFIG. It is to be set for the topic, for all brokers (kafka-configs --entity-default), or in the
# controllers' file before their first start.
#
# Seen (one controller without the setting, one broker with min.insync.replicas=2 in its file, a topic of one partition
# and one replica; the description of the topic, and what a producer with acks=all is told):
#   min.insync.replicas=1 ... synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1,
#     STATIC_BROKER_CONFIG:min.insync.replicas=2, DEFAULT_CONFIG:min.insync.replicas=1}
#   a record is acknowledged
#
# Needs a JDK 17, Maven and Python. Exits with 0 while this holds, and with 1 if it has changed. Takes about a minute.
set -euo pipefail

directory=$(mktemp -d)
pids=()
trap 'for each in "${pids[@]}"; do kill -9 "$each" 2>/dev/null || true; done; rm -rf "$directory"' EXIT

cat > "$directory/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>a</groupId><artifactId>a</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>4.3.1</version></dependency>
  </dependencies>
</project>
POM
mvn --quiet --file "$directory/pom.xml" dependency:copy-dependencies -DoutputDirectory="$directory/jars"
kafka() { java -Xmx256m -cp "$directory/jars/*" "$@"; }

read -r clients own < <(python3 -c '
import socket
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in free))
')
cat > "$directory/controller.properties" <<PROPERTIES
process.roles=controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$own
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:$own
log.dirs=$directory/controller
PROPERTIES
cat > "$directory/broker.properties" <<PROPERTIES
process.roles=broker
node.id=2
controller.quorum.voters=1@127.0.0.1:$own
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$clients
log.dirs=$directory/broker
min.insync.replicas=2
PROPERTIES
for node in controller broker; do
  kafka kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$directory/$node.properties" > "$directory/$node.format" 2>&1
  java -Xmx256m -cp "$directory/jars/*" kafka.Kafka "$directory/$node.properties" > "$directory/$node.log" 2>&1 &
  pids+=($!)
done

tool() { local main=$1; shift; kafka "org.apache.kafka.tools.$main" --bootstrap-server "127.0.0.1:$clients" "$@" 2> "$directory/errors"; }
for _ in $(seq 60); do
  if tool TopicCommand --create --topic orders --partitions 1 --replication-factor 1 > /dev/null; then break; fi
  sleep 1
done
described=$(kafka kafka.admin.ConfigCommand --bootstrap-server "127.0.0.1:$clients" --describe --all \
  --entity-type topics --entity-name orders 2> "$directory/errors" | grep -o 'min.insync.replicas=1 .*')
echo "$described"
echo record | timeout 60 java -Xmx256m -cp "$directory/jars/*" org.apache.kafka.tools.ConsoleProducer \
  --bootstrap-server "127.0.0.1:$clients" --topic orders --command-property acks=all \
  --command-property delivery.timeout.ms=20000 --command-property request.timeout.ms=10000 > "$directory/produced" 2>&1 || true
offsets=$(tool GetOffsetShell --topic orders)
echo "$offsets"
[[ $described == *DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1,* ]] || exit 1
[[ $described == *STATIC_BROKER_CONFIG:min.insync.replicas=2* ]] || exit 1
[ "$offsets" = orders:0:1 ] || { cat "$directory/produced"; exit 1; }
echo "a record is acknowledged: holds"
