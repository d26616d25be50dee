#!/usr/bin/env bash
# grpcio 1.85.1, asyncio server: each call leaves a reference cycle that holds its metadata.
#
# To find the handler of a call, the server makes a closure that refers to itself and to the details of the call. So
# when the call has ended, and its handler and its caller have let go of everything, the metadata that it came with
# (credentials among them) stays until Python's cyclic garbage collector runs. A process that has turned the collector
# off, as some servers do for their latency, grows with each call; the requests and the answers are not held.
#
# Seen (CPython 3.11, the collector off, 100 calls one after another, each with metadata of its own):
#   values of metadata that are still there: 100; requests: 0
#   after gc.collect(): 0
#
# Exits with 0 while this holds, and with 1 if it has changed.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1

cat > "$directory/calls.py" <<'PYTHON'
import asyncio
import gc
import weakref

import grpc

KEY, CALLS = "call-number", 100


class Request:
    """What a call's bytes are decoded to."""


requests: list[weakref.ref[Request]] = []


def decoded(data: bytes) -> Request:
    request = Request()
    requests.append(weakref.ref(request))
    return request


async def answer(request: Request, context: object) -> bytes:
    return b""


def values_there() -> int:
    return len({id(each) for each in gc.get_objects() if getattr(each, "key", None) == KEY})


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"Method": grpc.unary_unary_rpc_method_handler(answer, request_deserializer=decoded)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    gc.collect()
    gc.disable()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        method = channel.unary_unary("/a.Service/Method")
        for number in range(CALLS):
            await method(b"", metadata=((KEY, str(number)),), timeout=30)
    await asyncio.sleep(0.5)
    held = sum(request() is not None for request in requests)
    print(f"metadata {values_there()} requests {held}")
    gc.collect()
    print(f"collected {values_there()}")
    await server.stop(0)


asyncio.run(main())
PYTHON

seen=$("$directory/venv/bin/python" "$directory/calls.py")
echo "$seen"
[ "$seen" = $'metadata 100 requests 0\ncollected 0' ]
