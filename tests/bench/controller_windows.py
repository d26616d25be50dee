"""How long no write is acknowledged after a leader or controllers are killed or stopped, apart from each other."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import count, pairwise
from typing import Final

import grpc

from deploy.local.plan import Process
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from tests.bench.controller_nodes import WITHIN_S, Controllers, controllers
from tests.bench.measure import Table
from tests.bench.quorum_nodes import caught_up, find
from tests.bench.synthetic import Shape
from tests.run_loop import run_loop

ROUNDS: Final = int(os.environ.get("WINDOW_ROUNDS", "5"))
SHAPE: Final = Shape(partitions=1_000, brokers=30)
WRITERS: Final = 2
"""At each controller: one may wait for an answer that does not come."""
DEADLINE_S: Final = 1.0
PAUSE_S: Final = 0.02
MORE: Final = 10
"""So many acknowledged writes show that writes go on; one or two may be of before."""


NUMBERS: Final = count()
"""Of topics: a name that is there already would be no write."""


class Stream:
    """Creates topics at every controller all the time, and keeps when each was acknowledged."""

    def __init__(self, there: Controllers) -> None:
        self.acknowledged: list[float] = []
        self._there = there
        self._acknowledged = asyncio.Event()
        self._tasks = [
            asyncio.ensure_future(self._write(door)) for door in there.plan.controllers for _ in range(WRITERS)
        ]

    async def window(self, fault: Callable[[], object]) -> float:
        """Seconds of the longest pause between two acknowledged writes, from the fault on."""
        await self._more()
        begun = time.perf_counter()
        fault()
        await self._more()
        ends = [begun, *(each for each in self.acknowledged if each > begun)]
        return max(after - before for before, after in pairwise(ends))

    async def _more(self) -> None:
        enough = len(self.acknowledged) + MORE
        async with asyncio.timeout(WITHIN_S):
            while len(self.acknowledged) < enough:
                self._acknowledged.clear()
                await self._acknowledged.wait()

    async def _write(self, door: Process) -> None:
        while True:
            topic = CreateTopicsRequest.CreatableTopic(
                name=f"window-{next(NUMBERS)}", num_partitions=1, replication_factor=3
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=int(DEADLINE_S * 1000))
            try:
                answer: CreateTopicsResponse = await self._there.stub(door).CreateTopics(request, timeout=DEADLINE_S)
                if not answer.topics[0].error_code:
                    self.acknowledged.append(time.perf_counter())
                    self._acknowledged.set()
            except grpc.aio.AioRpcError:
                pass  # asked again under another name
            await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        """Write no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def run() -> list[Table]:
    """Each fault some rounds; whatever was hit comes back in between."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    found: dict[str, list[float]] = {}
    async with controllers(SHAPE) as there:
        everybody = (*there.plan.quorum, *there.plan.controllers, there.plan.placer)
        await there.spawn(*everybody)
        await there.ready(*everybody)
        for name, number in FAULTS:
            for _ in range(ROUNDS):
                found.setdefault(name, []).append(await _one(there, name, number))
    rows = [
        (name, f"{statistics.median(each):.2f} s", f"{min(each):.2f} s", f"{max(each):.2f} s")
        for name, each in found.items()
    ]
    return [
        Table(
            title=f"Windows without an acknowledged write, {ROUNDS} rounds each; three nodes on loopback",
            columns=("fault", "median", "least", "worst"),
            rows=rows,
            data=[{"fault": name, "s": each} for name, each in found.items()],
        )
    ]


async def _one(there: Controllers, name: str, number: signal.Signals) -> float:
    hit = _hit(there, name, await there.active())
    stream = Stream(there)
    pids = [there.running.pid(process) for process in hit]
    try:
        window = await stream.window(lambda: _send(number, pids))
    finally:
        if number is signal.SIGSTOP:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        await stream.close()
    if number is signal.SIGKILL:
        for process in hit:
            await there.running.ended(process)
        await there.spawn(*hit)
    await there.ready(*there.plan.quorum, *there.plan.controllers)
    end = max([(await find(node)).high_watermark for node in there.plan.quorum])
    for node in there.plan.quorum:
        await caught_up(node, end)
    return window


def _send(number: signal.Signals, pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, number)


def _hit(there: Controllers, name: str, active: Process) -> Sequence[Process]:
    at = there.plan.controllers.index(active)
    match name:
        case "kill -9 of the leader's node" | "SIGSTOP of the leader's node":
            return (there.plan.quorum[at],)
        case "kill -9 of two controllers, one of them active":
            return (active, there.plan.controllers[at - 1])
        case _:
            return (active,)


FAULTS: Final = (
    ("kill -9 of the leader's node", signal.SIGKILL),
    ("kill -9 of the active controller", signal.SIGKILL),
    ("kill -9 of two controllers, one of them active", signal.SIGKILL),
    ("SIGSTOP of the leader's node", signal.SIGSTOP),
    ("SIGSTOP of the active controller", signal.SIGSTOP),
)
