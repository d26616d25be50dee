#!/usr/bin/env bash
# Apache Kafka 4.4.0, controller: whom DescribeQuorum names as the leader refuses writes, and names itself in the refusal.
#
# A leader of the quorum is the active controller only once its own election is committed and its controller has heard of
# that. In between DescribeQuorum answers without an error and names the node as the leader of its epoch, and a write to
# that node is refused with NOT_CONTROLLER (41), "The active controller appears to be node N", where N is the refusing
# node. So a program that has found the leader by DescribeQuorum has to ask the same node again, and to seek no other.
#
# Seen (three controllers are the voters; DescribeQuorum is asked until one says that it leads, then a broker default is
# set there at once by IncrementalAlterConfigs, version 1):
#   it leads; 41 The active controller appears to be itself
#   later: 0
#
# Needs a JDK 17, Maven and Python. Exits with 0 while this holds, and with 1 if it has changed. Takes about 30 s.
set -euo pipefail

directory=$(mktemp -d)
controllers=()
trap 'for each in "${controllers[@]}"; do kill -9 "$each" 2>/dev/null || true; done; rm -rf "$directory"' EXIT

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

read -ra ports < <(python3 - <<'PYTHON'
import socket

free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in free))
PYTHON
)
kafka() { java -Xmx256m -cp "$directory/jars/*" "$@"; }
for id in 1 2 3; do
  cat > "$directory/$id.properties" <<PROPERTIES
process.roles=controller
node.id=$id
controller.quorum.voters=1@127.0.0.1:${ports[0]},2@127.0.0.1:${ports[1]},3@127.0.0.1:${ports[2]}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:${ports[id - 1]}
log.dirs=$directory/data-$id
PROPERTIES
  kafka kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$directory/$id.properties" > "$directory/format-$id.log" 2>&1
done
for id in 1 2 3; do
  kafka kafka.Kafka "$directory/$id.properties" > "$directory/controller-$id.log" 2>&1 &
  controllers+=($!)
  disown
done

cat > "$directory/ask.py" <<'PYTHON'
import socket
import struct
import sys
import time

TOPIC = b"__cluster_metadata"
DESCRIBE_QUORUM, INCREMENTAL_ALTER_CONFIGS = 55, 44


def compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


def length(data: bytes, at: int) -> tuple[int, int]:
    """A compact length, and the place after it."""
    value, shift = 0, 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value - 1, at


def text(data: bytes, at: int) -> tuple[str, int]:
    size, at = length(data, at)
    return data[at : at + max(0, size)].decode(), at + max(0, size)


def asked(port: int, api: int, version: int, body: bytes) -> bytes:
    sent = struct.pack(">hhih", api, version, 7, -1) + b"\0" + body
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(sent)) + sent)
        file = connection.makefile("rb")
        (size,) = struct.unpack(">i", file.read(4))
        return file.read(size)[5:]  # correlation id, no tagged fields


def leader(port: int) -> int:
    """Who leads, as the node at `port` says; -1 if it does not itself."""
    data = asked(port, DESCRIBE_QUORUM, 2, b"\x02" + compact(TOPIC) + b"\x02" + struct.pack(">i", 0) + b"\0\0\0")
    at = text(data, 2)[1] + 1  # past the message, to the only topic
    at = text(data, at)[1] + 1  # to its only partition
    error = struct.unpack_from(">h", data, at + 4)[0]
    at = text(data, at + 6)[1]
    return struct.unpack_from(">i", data, at)[0] if error == 0 else -1


def alter(port: int) -> tuple[int, str]:
    config = b"\x02" + compact(b"log.cleaner.threads") + b"\0" + compact(b"2") + b"\0"
    data = asked(port, INCREMENTAL_ALTER_CONFIGS, 1, b"\x02" + b"\x04" + compact(b"") + config + b"\0" + b"\0" + b"\0")
    return struct.unpack_from(">h", data, 5)[0], text(data, 7)[0]


def led() -> int | None:
    """The place of the node that says that it leads."""
    for place, port in enumerate(map(int, sys.argv[1:])):
        try:
            if leader(port) == place + 1:
                return place
        except OSError:
            pass
    return None


deadline = time.monotonic() + 120
while (place := led()) is None:
    assert time.monotonic() < deadline, "no leader"
port = int(sys.argv[place + 1])
code, message = alter(port)
print(f"it leads; {code} {message}".replace(f"node {place + 1}.", "itself"))
while (later := alter(port)[0]) and time.monotonic() < deadline:
    time.sleep(0.1)
print(f"later: {later}")
PYTHON
found=$(python3 "$directory/ask.py" "${ports[@]}")
echo "$found"
[ "$found" = "$(printf 'it leads; 41 The active controller appears to be itself\nlater: 0')" ]
