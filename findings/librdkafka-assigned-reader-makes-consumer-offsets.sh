#!/usr/bin/env bash
# confluent-kafka 2.16.1 (librdkafka) on Apache Kafka 4.3.1: a consumer that is assigned a partition, begins at an offset
# of its own and never commits makes the cluster create __consumer_offsets, with 50 partitions.
#
# librdkafka needs a group.id even of a consumer that only assigns, and asks for that group's coordinator as soon as it
# has an assignment. A broker that is asked for a coordinator makes the internal topic, also with
# auto.create.topics.enable=false. So a tool that is meant to read and change nothing changes the metadata.
#
# Seen:
#   before: ['orders']
#   read: b'first'
#   after: ['__consumer_offsets', 'orders'], 50 partitions
#
# Needs Python 3.11, a JDK 17 and Maven; listens on loopback. Exits with 0 while this holds, and with 1 if it has changed.
# Takes about a minute.
set -euo pipefail

directory=$(mktemp -d)
node=
trap '[ -z "$node" ] || kill "$node" 2>/dev/null; wait; rm -rf "$directory"' EXIT

cat > "$directory/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>a</groupId><artifactId>a</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency>
  </dependencies>
</project>
POM
mvn --quiet --file "$directory/pom.xml" dependency:copy-dependencies -DoutputDirectory="$directory/jars"
python3 -m venv "$directory/python"
"$directory/python/bin/pip" install --quiet confluent-kafka==2.16.1

ports=$(python3 - <<'PYTHON'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))
PYTHON
)
read -r port controller_port <<< "$ports"
cat > "$directory/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$controller_port
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller_port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$directory/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
PROPERTIES
java -cp "$directory/jars/*" kafka.tools.StorageTool format --standalone \
  --cluster-id hJvfCk0kQ3KiQ6rECn5K3g --config "$directory/server.properties" > "$directory/format.out" 2>&1
java -cp "$directory/jars/*" kafka.Kafka "$directory/server.properties" > "$directory/server.out" 2>&1 &
node=$!

"$directory/python/bin/python" - "127.0.0.1:$port" <<'PYTHON' 2> "$directory/client.out"
import sys
import time

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

servers = {"bootstrap.servers": sys.argv[1]}
admin = AdminClient(servers)
until = time.monotonic() + 60
while True:
    try:
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        break
    except confluent_kafka.KafkaException:
        if time.monotonic() > until:
            raise
        time.sleep(1)
producer = confluent_kafka.Producer(servers)
producer.produce("orders", b"first")
assert producer.flush(60) == 0
before = sorted(admin.list_topics(timeout=30).topics)
print("before:", before)

consumer = confluent_kafka.Consumer({**servers, "group.id": "reader", "enable.auto.commit": False})
consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
message = consumer.poll(60)
print("read:", message.value())
until = time.monotonic() + 30
while "__consumer_offsets" not in (after := admin.list_topics(timeout=30).topics) and time.monotonic() < until:
    consumer.poll(0.5)
consumer.close()
print(f"after: {sorted(after)}, {len(after['__consumer_offsets'].partitions)} partitions")
assert (before, message.value()) == (["orders"], b"first")
assert len(after["__consumer_offsets"].partitions) == 50
PYTHON
