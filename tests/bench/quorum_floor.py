"""What disk and gRPC take by themselves: the floor under a commit, measured in the same minute.

As a program it is the other end of the stream: `python -m tests.bench.quorum_floor` prints its port and echoes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

from quorate.runtime.clients.client import open_channel

SYNCS: Final = 500
ECHOES: Final = 2_000
ECHO: Final = "floor.Echo"


def sync_seconds(size: int) -> list[float]:
    """Each write of `size` bytes, one after the other into a file that is long enough, and its fdatasync."""
    took = []
    with tempfile.TemporaryFile() as file:
        file.write(bytes(SYNCS * size))
        file.flush()
        os.fsync(file.fileno())
        for at in range(SYNCS):
            started = time.perf_counter()
            os.pwrite(file.fileno(), bytes(size), at * size)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - started)
    return took


async def echo_seconds(size: int) -> list[float]:
    """Each message of `size` bytes to another process and back, over one bidirectional stream."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.quorum_floor", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    took = []
    async with open_channel(f"127.0.0.1:{int(await child.stdout.readline())}") as channel:
        call: Any = channel.stream_stream(f"/{ECHO}/Echo")()
        for _ in range(ECHOES):
            started = time.perf_counter()
            await call.write(bytes(size))
            await call.read()
            took.append(time.perf_counter() - started)
        call.cancel()
    child.stdin.close()
    await child.wait()
    return took[ECHOES // 10 :]


async def serve() -> None:
    """Echo until standard input ends."""

    async def echo(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    server = grpc.aio.server()
    handlers: Any = {"Echo": grpc.stream_stream_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(ECHO, handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    from tests.run_loop import run_loop

    run_loop(serve())
