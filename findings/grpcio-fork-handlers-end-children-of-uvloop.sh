#!/usr/bin/env bash
# grpcio 1.85.1 with uvloop 0.23.0: children of a process with a busy gRPC server die before they begin their program.
#
# gRPC's core registers handlers with pthread_atfork unless GRPC_ENABLE_FORK_SUPPORT is 0, also where Python's gRPC says
# that its fork support is off. libuv forks for each child, so that they run in it before exec; some end the child by
# SIGSEGV, or by SIGABRT ("ev_epoll1_linux.cc: Check failed: next_worker->state == KICKED"). asyncio's own loop starts
# children without these handlers, and there none dies.
#
# Seen (children of 150 that ended by a signal, beside four calls under way):
#   by default: 9; 12      GRPC_ENABLE_FORK_SUPPORT=0: 0      asyncio's own loop: 0
#
# Exits with 0 while this holds, and with 1 if it has changed. Takes about 30 s.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1 uvloop==0.23.0

cat > "$directory/children.py" <<'PYTHON'
import asyncio

import grpc
import uvloop

CHILDREN = 300


async def answer(request: bytes, context: object) -> bytes:
    return request


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"Method": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

        async def ask() -> None:
            while True:
                await channel.unary_unary("/a.Service/Method")(b"")

        asking = [asyncio.ensure_future(ask()) for _ in range(4)]
        ends = []
        for _ in range(CHILDREN):
            child = await asyncio.create_subprocess_exec("true")
            ends.append(await child.wait())
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    await server.stop(0)
    print(sum(end < 0 for end in ends))


uvloop.run(main())
PYTHON
default=$(env -u GRPC_ENABLE_FORK_SUPPORT "$directory/venv/bin/python" "$directory/children.py" 2> /dev/null)
without=$(GRPC_ENABLE_FORK_SUPPORT=0 "$directory/venv/bin/python" "$directory/children.py")
echo "of 300 children $default ended by a signal by default, $without with GRPC_ENABLE_FORK_SUPPORT=0"
[ "$default" -gt 0 ] && [ "$without" -eq 0 ]
