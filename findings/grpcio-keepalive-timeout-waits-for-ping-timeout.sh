#!/usr/bin/env bash
# grpcio 1.85.1, client: grpc.keepalive_timeout_ms does not bound how long a dead peer goes unnoticed.
#
# With grpc.keepalive_time_ms=10000 and grpc.keepalive_timeout_ms=5000 a peer whose process is stopped should be found
# dead after 15 s. It takes 60 to 70 s, and the status says "ping timeout": the PING has a timeout of its own, 60 s by
# default, which counts. The channel argument grpc.http2.ping_timeout_ms is in no public header; with 5000 it takes 15 s.
#
# Seen (a call to a server that was stopped by SIGSTOP; seconds until it ended with UNAVAILABLE):
#   keepalive alone: 70.0
#   with grpc.http2.ping_timeout_ms=5000: 15.0
#
# Exits with 0 while the first takes more than twice as long as it should, and the second does not; else with 1.
# Takes about 100 s.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1

cat > "$directory/server.py" <<'PYTHON'
import asyncio

import grpc


async def answer(request: bytes, context: object) -> bytes:
    return request


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"Method": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Service", handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


asyncio.run(main())
PYTHON

cat > "$directory/client.py" <<'PYTHON'
import asyncio
import pathlib
import signal
import subprocess
import sys
import time

import grpc

KEEPALIVE = (("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 5_000))
SERVER = pathlib.Path(__file__).with_name("server.py")


async def found_dead_after_s(*more: tuple[str, int]) -> float:
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().strip()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=(*KEEPALIVE, *more)) as channel:
            call = channel.unary_unary("/a.Service/Method")
            await call(b"")
            server.send_signal(signal.SIGSTOP)
            begun = time.monotonic()
            try:
                await call(b"", timeout=120)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            return time.monotonic() - begun
    finally:
        server.kill()
        server.wait()


async def main() -> int:
    alone, bounded = await asyncio.gather(found_dead_after_s(), found_dead_after_s(("grpc.http2.ping_timeout_ms", 5_000)))
    print(f"keepalive alone: {alone:.1f} s; with grpc.http2.ping_timeout_ms=5000: {bounded:.1f} s")
    return 0 if alone > 30 > bounded else 1


sys.exit(asyncio.run(main()))
PYTHON
"$directory/venv/bin/python" "$directory/client.py"
