#!/usr/bin/env bash
# Apache Kafka 4.4.0, controller: DescribeQuorum without a leader names node 0 as the leader, where its schema says -1.
#
# The field's description in DescribeQuorumResponse.json is "The ID of the current leader or -1 if the leader is unknown".
# A controller that knows no leader answers error 0 at the top, NOT_LEADER_OR_FOLLOWER (6) in the partition, and leaves
# all fields beside it at the defaults of their types: leader 0, epoch 0, high watermark 0, no voters, no nodes. A node
# with id 0 may exist. A program that reads the leader before the partition's error, as for other answers, takes it.
#
# Seen (one controller of three voters runs; version 2 of the API):
#   top error 0, partition error 6, leader 0, epoch 0, high watermark 0, voters 0
#
# Needs a JDK 17, Maven and Python. Exits with 0 while this holds, and with 1 if it has changed. Takes about 30 s.
set -euo pipefail

directory=$(mktemp -d)
controller=
trap 'if [ -n "$controller" ]; then kill -9 "$controller" 2>/dev/null || true; fi; rm -rf "$directory"' EXIT

cat > "$directory/pom.xml" <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>a</groupId><artifactId>a</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.4.0</version></dependency>
  </dependencies>
</project>
POM
mvn --quiet --file "$directory/pom.xml" dependency:copy-dependencies -DoutputDirectory="$directory/jars"

read -r own second third < <(python3 - <<'PYTHON'
import socket

free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in free))
PYTHON
)
cat > "$directory/controller.properties" <<PROPERTIES
process.roles=controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$own,2@127.0.0.1:$second,3@127.0.0.1:$third
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:$own
log.dirs=$directory/data
PROPERTIES
kafka() { java -Xmx256m -cp "$directory/jars/*" "$@"; }
kafka kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$directory/controller.properties" > "$directory/format.log" 2>&1
kafka kafka.Kafka "$directory/controller.properties" > "$directory/controller.log" 2>&1 &
controller=$!

cat > "$directory/ask.py" <<'PYTHON'
import socket
import struct
import sys
import time

TOPIC = b"__cluster_metadata"


def request() -> bytes:
    topics = b"\x02" + bytes([len(TOPIC) + 1]) + TOPIC + b"\x02" + struct.pack(">i", 0) + b"\0" + b"\0"
    header = struct.pack(">hhih", 55, 2, 7, -1) + b"\0"
    return header + topics + b"\0"


def asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        sent = request()
        connection.sendall(struct.pack(">i", len(sent)) + sent)
        file = connection.makefile("rb")
        (size,) = struct.unpack(">i", file.read(4))
        return file.read(size)


def message(data: bytes, at: int) -> int:
    """The place after a compact nullable string of less than 16,383 bytes."""
    size, at = (data[at], at + 1) if data[at] < 128 else (data[at] - 128 + (data[at + 1] << 7), at + 2)
    return at + max(0, size - 1)


def shown(data: bytes) -> str:
    at = 5  # correlation id, no tagged fields
    (top,) = struct.unpack_from(">h", data, at)
    at = message(data, at + 2)
    assert data[at] == 2, "one topic"
    at = message(data, at + 1)
    assert data[at] == 2, "one partition"
    (index, error) = struct.unpack_from(">ih", data, at + 1)
    at = message(data, at + 7)
    leader, epoch, high_watermark = struct.unpack_from(">iiq", data, at)
    voters = data[at + 16] - 1
    return (
        f"top error {top}, partition error {error}, leader {leader}, epoch {epoch}, "
        f"high watermark {high_watermark}, voters {voters}"
    )


deadline = time.monotonic() + 120
while True:
    try:
        print(shown(asked(int(sys.argv[1]))))
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.5)
PYTHON
found=$(python3 "$directory/ask.py" "$own")
echo "$found"
[ "$found" = "top error 0, partition error 6, leader 0, epoch 0, high watermark 0, voters 0" ]
