#!/usr/bin/env bash
# Apache Kafka 4.3.1, broker: the first InitProducerId without a transactional id is refused with
# COORDINATOR_LOAD_IN_PROGRESS (14), though no coordinator has part in it.
#
# A producer that is idempotent alone may ask any broker for its id. Each broker gets a block of ids from the controller
# (AllocateProducerIds, KIP-730) when the first is asked for, and answers that one with the code by which a coordinator
# says that it reads its partition. A moment later the same request has an id. Kafka's producer tries again by itself. A
# program that takes 14 for a sign that __transaction_state is not there, or that asks once as a check, is misled: it
# sees an error on a broker that is well, and another run, with the block there, none.
#
# Seen (one node, broker and controller, asked as soon as it answers; version 1 of the API):
#   first answer: error 14, producer id -1
#   later answer: error 0, a producer id; __transaction_state does not exist
#
# Needs a JDK 17, Maven and Python. Exits with 0 while this holds, and with 1 if it has changed. Takes about 30 s.
set -euo pipefail

directory=$(mktemp -d)
node=
trap 'if [ -n "$node" ]; then kill -9 "$node" 2>/dev/null || true; fi; rm -rf "$directory"' EXIT

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

read -r clients own < <(python3 -c '
import socket
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in free))
')
cat > "$directory/node.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$own
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$clients,CONTROLLER://127.0.0.1:$own
log.dirs=$directory/data
PROPERTIES
kafka() { java -Xmx256m -cp "$directory/jars/*" "$@"; }
kafka kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c "$directory/node.properties" > "$directory/format.log" 2>&1
java -Xmx256m -cp "$directory/jars/*" kafka.Kafka "$directory/node.properties" > "$directory/node.log" 2>&1 &
node=$!

cat > "$directory/ask.py" <<'PYTHON'
import socket
import struct
import sys
import time

INIT_PRODUCER_ID = struct.pack(">hhihhi", 22, 1, 7, -1, -1, 60_000)  # no client id, no transactional id


def asked(port: int) -> tuple[int, int]:
    """Error code and producer id."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(INIT_PRODUCER_ID)) + INIT_PRODUCER_ID)
        file = connection.makefile("rb")
        (size,) = struct.unpack(">i", file.read(4))
        _, _, error, producer_id, _ = struct.unpack(">iihqh", file.read(size))
        return error, producer_id


port, deadline, answers = int(sys.argv[1]), time.monotonic() + 120, []
while not answers or answers[-1][0]:
    try:
        answers.append(asked(port))
    except (OSError, struct.error):
        if time.monotonic() > deadline:
            raise
    assert time.monotonic() < deadline, answers
    time.sleep(0.1)
print("first answer: error {}, producer id {}".format(*answers[0]))
print("later answer: error {}, {} producer id".format(answers[-1][0], "no" if answers[-1][1] < 0 else "a"))
PYTHON
found=$(python3 "$directory/ask.py" "$clients")
if compgen -G "$directory/data/__transaction_state-*" > /dev/null; then
    found="$found; __transaction_state exists"
else
    found="$found; __transaction_state does not exist"
fi
echo "$found"
[ "$found" = "first answer: error 14, producer id -1
later answer: error 0, a producer id; __transaction_state does not exist" ]
