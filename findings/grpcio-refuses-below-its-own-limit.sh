#!/usr/bin/env bash
# grpcio 1.85.1, server: refuses calls of a client that keeps grpc.max_concurrent_streams.
#
# The server tells its client the limit as SETTINGS_MAX_CONCURRENT_STREAMS, and the client has further calls wait, so
# that none should be refused. But by default (channel argument grpc.http.overload_protection) the server compares its
# limit with the calls that it has not freed yet, and not with the streams that are open (RFC 9113, 5.1.2). A client that
# begins a call as soon as another one has ended gets RST_STREAM with REFUSED_STREAM for many of them, which ends the
# call with UNAVAILABLE; gRPC's own retries are on, and make a refused call once more at most. The load does not matter:
# the handler returns at once. With grpc.http.overload_protection=0 no call is refused, by the same limit.
#
# Seen (refused of 7,500 calls, 300 callers on one channel, limit 128):
#   by default: 2,029; 2,513; 3,491
#   grpc.http.overload_protection=0: 0; 0; 0
#
# Exits with 0 while this holds, and with 1 if it has changed. Takes about 30 s.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1

cat > "$directory/refused.py" <<'PYTHON'
import asyncio
import sys

import grpc

LIMIT, CALLERS, CALLS_EACH = 128, 300, 25


async def answer(request: bytes, context: object) -> bytes:
    return request


async def refused(*options: tuple[str, int]) -> int:
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", LIMIT), *options])
    handlers = {"Method": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    count = 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/a.Service/Method")
        await call(b"the client knows the limit by now")

        async def caller() -> None:
            nonlocal count
            for _ in range(CALLS_EACH):
                try:
                    await call(b"")
                except grpc.aio.AioRpcError as error:
                    assert "RST_STREAM with error code 7" in error.details(), error
                    count += 1

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
    await server.stop(0)
    return count


async def main() -> int:
    default = await refused()
    without = await refused(("grpc.http.overload_protection", 0))
    print(f"grpcio {grpc.__version__}: {default} of {CALLERS * CALLS_EACH} calls refused by default, {without} without")
    return 0 if default > 0 and without == 0 else 1


sys.exit(asyncio.run(main()))
PYTHON
"$directory/venv/bin/python" "$directory/refused.py"
