#!/usr/bin/env bash
# Apache Kafka 4.4.0, controller: ApiVersions lists DescribeDelegationToken, and each request is UNKNOWN_SERVER_ERROR.
#
# By KIP-35 a client sends what ApiVersions lists, in the versions that it lists. A controller's listener lists
# DescribeDelegationToken (41) in versions 1 to 3, and ControllerApis has no handler for it. The answer to a valid request
# is error -1, "the server experienced an unexpected error", and not UNSUPPORTED_VERSION or a hint that a broker answers.
#
# Seen (one controller, which leads; a request for all tokens):
#   listed in versions 1 to 3; version 1: error -1; version 2: error -1
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

port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
cat > "$directory/controller.properties" <<PROPERTIES
process.roles=controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$port
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:$port
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

KEY = 41


def asked(port: int, key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
    """The answer after its correlation id."""
    sent = struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"") + body
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(sent)) + sent)
        file = connection.makefile("rb")
        (size,) = struct.unpack(">i", file.read(4))
        return file.read(size)[4:]


def listed(port: int) -> tuple[int, int]:
    """The versions of KEY in the answer to ApiVersions version 0."""
    data = asked(port, 18, 0, b"")
    (count,) = struct.unpack_from(">i", data, 2)
    rows = (struct.unpack_from(">hhh", data, 6 + 6 * place) for place in range(count))
    return next((first, last) for key, first, last in rows if key == KEY)


def shown(port: int) -> str:
    first, last = listed(port)
    # A null list of owners asks for all tokens. From version 2 on headers and lists are flexible (KIP-482).
    (old,) = struct.unpack_from(">h", asked(port, KEY, 1, struct.pack(">i", -1)))
    (new,) = struct.unpack_from(">h", asked(port, KEY, 2, b"\0\0", flexible=True), 1)
    return f"listed in versions {first} to {last}; version 1: error {old}; version 2: error {new}"


deadline = time.monotonic() + 120
while True:
    try:
        print(shown(int(sys.argv[1])))
        break
    except OSError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.5)
PYTHON
found=$(python3 "$directory/ask.py" "$port")
echo "$found"
[ "$found" = "listed in versions 1 to 3; version 1: error -1; version 2: error -1" ]
