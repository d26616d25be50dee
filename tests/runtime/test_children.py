"""A process with a busy gRPC server starts children, as an observer does for each question in SQL: none dies."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

CHILDREN: Final = 100
"""Without what the runtime sets six of them die, by SIGSEGV or SIGABRT, before they begin their program."""
STARTS: Final = f"""
import asyncio
from collections import Counter

import quorate.runtime
import grpc
import uvloop


async def echo(request, context):
    return request


async def main():
    server = grpc.aio.server()
    methods = {{"Echo": grpc.unary_unary_rpc_method_handler(echo)}}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ends = Counter()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:

        async def ask():
            while True:
                await channel.unary_unary("/a.B/Echo")(b"")

        asking = [asyncio.ensure_future(ask()) for _ in range(4)]
        for _ in range({CHILDREN}):
            child = await asyncio.create_subprocess_exec("true")
            ends[await child.wait()] += 1
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    await server.stop(None)
    print(dict(ends))


uvloop.run(main())
"""


def test_no_child_of_a_busy_process_dies_before_it_begins() -> None:
    """Whatever the environment says of gRPC and forks."""
    environment = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", STARTS], env=environment, capture_output=True, text=True, timeout=120, check=False
    )

    assert (0, f"{{0: {CHILDREN}}}\n") == (ran.returncode, ran.stdout), ran.stderr
