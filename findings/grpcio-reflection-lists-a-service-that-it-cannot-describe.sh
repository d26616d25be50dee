#!/usr/bin/env bash
# grpcio-tools and grpcio-reflection 1.85.1, protobuf 7.36.2: reflection lists a service and then does not find it.
#
# The generated module of a service, b_pb2_grpc, imports the modules of its messages, and its own b_pb2 only if a message
# is declared there. If all messages come from another file, nothing imports b_pb2: the server answers calls, and
# reflection has the service's name in its list, but NOT_FOUND when it is asked for the file that declares it. A client
# such as grpcurl then says that the server does not expose the service. It is found once the server imports b_pb2,
# which it needs for nothing else.
#
# Seen (the service test.Echo in echo.proto, its message in text.proto):
#   imported: echo_pb2_grpc; listed: True; found: NOT_FOUND
#   imported: echo_pb2_grpc, echo_pb2; listed: True; found: echo.proto
#
# Exits with 0 while this holds, and with 1 if it has changed.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check \
  grpcio==1.85.1 grpcio-tools==1.85.1 grpcio-reflection==1.85.1 protobuf==7.36.2

cat > "$directory/text.proto" <<'PROTO'
syntax = "proto3";
package test;
message Text { string words = 1; }
PROTO
cat > "$directory/echo.proto" <<'PROTO'
syntax = "proto3";
package test;
import "text.proto";
service Echo { rpc Say(Text) returns (Text); }
PROTO
(cd "$directory" && venv/bin/python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. text.proto echo.proto)

cat > "$directory/ask.py" <<'PYTHON'
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

import echo_pb2_grpc

if sys.argv[1:] == ["echo_pb2"]:
    import echo_pb2

server = grpc.server(ThreadPoolExecutor())
echo_pb2_grpc.add_EchoServicer_to_server(echo_pb2_grpc.EchoServicer(), server)
reflection.enable_server_reflection(["test.Echo"], server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="test.Echo"),
    ]
    listed, found = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter(asked), timeout=30)
names = [each.name for each in listed.list_services_response.service]
file = "echo.proto"
if found.WhichOneof("message_response") == "error_response":
    (file,) = [each.name for each in grpc.StatusCode if each.value[0] == found.error_response.error_code]
print(f"imported: {', '.join(['echo_pb2_grpc', *sys.argv[1:]])}; listed: {'test.Echo' in names}; found: {file}")
server.stop(None)
PYTHON

seen=$(cd "$directory" && venv/bin/python ask.py && venv/bin/python ask.py echo_pb2)
echo "$seen"
[ "$seen" = "imported: echo_pb2_grpc; listed: True; found: NOT_FOUND
imported: echo_pb2_grpc, echo_pb2; listed: True; found: echo.proto" ]
