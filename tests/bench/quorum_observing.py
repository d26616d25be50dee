"""Observers of a quorum in a process of their own, which tell when each has seen what.

As a program: `python -m tests.bench.quorum_observing stream|relayed start epoch count host:port…` fetches until
standard input ends. It prints a line when every observer has had an answer, and at the end as JSON how many streams
ended before, and what the first `SAMPLED` observers saw: for each the offsets below which it had everything committed,
and the moment (monotonic clock, s).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import grpc

from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.clients.client import open_channel
from quorate.runtime.following.leader_reports import LeaderReports
from quorate.runtime.following.log_reader import FETCH_WAIT_MS as MAX_WAIT_MS
from quorate.runtime.following.log_reader import PAUSE_S, RETRY_S
from quorate.runtime.following.log_requests import LogPosition
from quorate.runtime.following.log_servers import LogServers
from quorate.wire.batch import batches

SAMPLED: Final = 10
FIRST_ID: Final = 1_000
READY_S: Final = 60.0
LINE_BYTES_MAX: Final = 64 << 20
"""The result is one line."""

Seen = list[tuple[int, float]]


@dataclass(slots=True)
class Observed:
    """What observers saw, each in a list of its own, and how many of their streams ended in an error."""

    seen: list[Seen] = field(default_factory=list)
    broken: int = 0


@asynccontextmanager
async def observers(
    addresses: Sequence[str], count: int, *, is_relayed: bool, start: int, epoch: int
) -> AsyncIterator[Observed]:
    """So many follow the log from `start` on, at these addresses in turns; afterwards it is known what they saw."""
    observed = Observed()
    if count == 0:
        yield observed
        return
    arguments = ("relayed" if is_relayed else "stream", str(start), str(epoch), str(count), *addresses)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.quorum_observing", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            assert await child.stdout.readline(), "the observers have ended"
        yield observed
        child.stdin.close()
        async with asyncio.timeout(READY_S):
            observed.broken, observed.seen = json.loads(await child.stdout.readline())
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


def lags(told: Seen, seen: Sequence[Seen]) -> list[float]:
    """Seconds from each acknowledgement until each observer had seen it; below 0 where the writer learned it later."""
    found = []
    for each in seen:
        following = iter(each)
        at = next(following, None)
        for committed, told_at in told:
            while at is not None and at[0] < committed:
                at = next(following, None)
            if at is None:
                break
            found.append(at[1] - told_at)
    return found


@dataclass(slots=True, kw_only=True)
class _Observer:
    """One that fetches for ever, as an observer service does; not from the leader, it reports to it, too."""

    number: int
    is_relayed: bool
    position: LogPosition
    ready: asyncio.Semaphore
    seen: Seen = field(default_factory=list)
    broken: int = 0

    async def run(self, servers: LogServers) -> None:
        """Opens its stream anew where it ends."""
        reports = asyncio.ensure_future(LeaderReports(servers, self.position).run()) if self.is_relayed else None
        stub = servers.stub()
        try:
            while True:
                try:
                    await self._follow(stub.RelayFetchStream() if self.is_relayed else stub.FetchStream())
                except grpc.aio.AioRpcError as failure:
                    self.broken += 1
                    if self.broken == 1:
                        print(failure.code().name, failure.details(), file=sys.stderr, flush=True)
                    await asyncio.sleep(RETRY_S)
        finally:
            if reports is not None:
                reports.cancel()

    async def _follow(self, call: Any) -> None:
        position = self.position
        is_first = position.high_watermark == 0
        while True:
            await call.write(position.fetch(wait_ms=MAX_WAIT_MS))
            given = await call.read()
            answer = (given.response if self.is_relayed else given).responses[0].partitions[0]
            assert not answer.error_code, answer
            for _, header in batches(answer.records):
                position.fetched = header.next_offset
            position.high_watermark = max(position.high_watermark, answer.high_watermark)
            if self.number < SAMPLED:
                self.seen.append((min(position.fetched, position.high_watermark), time.monotonic()))
            if is_first:
                is_first = False
                self.ready.release()
            if answer.records and position.fetched >= position.high_watermark:
                await asyncio.sleep(PAUSE_S)


async def _main(how: str, start: int, epoch: int, count: int, addresses: Sequence[str]) -> None:
    """All of them, on one connection to each address, until standard input ends."""
    ready = asyncio.Semaphore(0)
    servers = [LogServers([address], open_channel, from_any=False) for address in addresses]
    each = [
        _Observer(number=number, is_relayed=how == "relayed", position=_position(number, start, epoch), ready=ready)
        for number in range(count)
    ]
    running = [
        asyncio.ensure_future(observer.run(server)) for observer, server in zip(each, cycle(servers), strict=False)
    ]
    told = asyncio.ensure_future(_until_ended(ready, count))
    await asyncio.wait((told, *running), return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        if task.done():
            task.result()  # raises what has ended it
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for server in servers:
        await server.close()
    print(json.dumps((sum(one.broken for one in each), [one.seen for one in each[:SAMPLED]])), flush=True)


def _position(number: int, start: int, epoch: int) -> LogPosition:
    return LogPosition(
        replica_id=FIRST_ID + number,
        directory_id=uuid_text(random_uuid()),
        cluster_id=None,
        epoch=epoch,
        fetched=start,
        fetched_epoch=epoch,
    )


async def _until_ended(ready: asyncio.Semaphore, count: int) -> None:
    for _ in range(count):
        await ready.acquire()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    from tests.run_loop import run_loop

    _how, _start, _epoch, _count, *_addresses = sys.argv[1:]
    run_loop(_main(_how, int(_start), int(_epoch), int(_count), _addresses))
