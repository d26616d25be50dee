"""P13: a broker in very many ISRs is fenced: what the decision takes, and how long until all of it is committed."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest, DescribeClusterResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.controller.commands.change_broker_state import change_in_turns
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.liveness import ControlState
from quorate.nouns import NodeId
from quorate.runtime.clients.client import open_channel
from tests.bench.controller_core import commit, standby, write_in_turns
from tests.bench.controller_nodes import CHECKPOINT, WITHIN_S, Controllers, controllers
from tests.bench.measure import Table, calibrate
from tests.bench.synthetic import REPLICATION_FACTOR, Shape, broker_epoch
from tests.run_loop import run_loop

BROKERS: Final = 30
SHAPES: Final = (
    Shape(partitions=100_000, brokers=BROKERS),
    Shape(partitions=1_000_000, brokers=100),
    Shape(partitions=1_000_000, brokers=BROKERS),
)
"""A broker is in 10,000, 30,000 and 100,000 ISRs."""
ROUNDS: Final = 5
COLUMNS: Final = (
    *("in ISRs", "of partitions", "decide", "apply, encode", "commit", "together", "spread"),
    *("partitions/s", "per loop", "loop held", "target"),
)
TARGETS: Final = {30_000: "≤ 0.3 s (P13)"}

SESSION_TIMEOUT_MS: Final = 9_000
HEARTBEAT_EVERY_S: Final = 1.0
READ_EVERY_S: Final = 0.02
READS: Final = 20
READS_UNDER_WAY_MAX: Final = 100
"""A server that does not come to its requests refuses more than some hundreds."""
LIVE_COLUMNS: Final = (
    *("in ISRs", "of partitions", "until committed", "least", "most"),
    *("a read before", "longest read", "longest heartbeats", "target"),
)
LIVE_TARGETS: Final = {30_000: "≤ 1 s (P13)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fencing:
    """One fencing in the engine, in seconds of CPU; `held` is the longest stretch without a turn for others."""

    partitions: int
    decided: float
    applied: float
    committed: float
    held: float
    loop: float

    @property
    def seconds(self) -> float:
        return self.decided + self.applied + self.committed


def run(sizes: Sequence[int] = ()) -> list[Table]:
    """In the engine alone, and by services. `sizes` are partitions, of which each of 30 brokers has a tenth."""
    shapes = [Shape(partitions=size, brokers=BROKERS) for size in sizes] or SHAPES
    return [_core(shapes), run_loop(_live(shapes))]


def victims(shape: Shape) -> list[NodeId]:
    """Brokers of one rack: so that none shares a partition with another, and each round finds as much."""
    return list(range(0, shape.brokers, shape.racks))[:ROUNDS]


# -- in the engine -------------------------------------------------------------------------------------


def _core(shapes: Sequence[Shape]) -> Table:
    rows, data = [], []
    for shape in shapes:
        engine = standby(shape)
        engine.claim(1, engine.next_offset)
        found = [_fence(engine, broker_id) for broker_id in victims(shape)]
        rows.append(_row(shape, found))
        data.append({"shape": str(shape), "rounds": [asdict(each) for each in found]})
    return Table(
        title=f"P13: fencing in the engine alone, RF 3, {ROUNDS} brokers one after the other; seconds of CPU",
        columns=COLUMNS,
        rows=rows,
        data=data,
    )


def _fence(engine: Engine, broker_id: NodeId) -> Fencing:
    partitions = engine.state.topics.isr_count(broker_id)
    broker = engine.state.brokers.get(broker_id)
    assert broker is not None, broker_id
    loop = calibrate()
    turns = change_in_turns(
        engine.state,
        broker_id=broker_id,
        broker_epoch=broker.epoch,
        target=ControlState.FENCED,
        settings=ControllerSettings(),
    )
    writes, commits = [], []
    for written in write_in_turns(engine, turns):
        writes.append(written)
        commits += commit(engine, written)
    assert sum(each.record_count for each in writes) == partitions + 1, (writes, partitions)
    assert not engine.state.topics.isr_count(broker_id), broker_id
    return Fencing(
        partitions=partitions,
        decided=sum(each.decided for each in writes),
        applied=sum(each.applied for each in writes),
        committed=sum(commits),
        held=max(*(each.decided + each.applied for each in writes), *commits),
        loop=loop,
    )


def _row(shape: Shape, found: Sequence[Fencing]) -> tuple[str, ...]:
    def median(name: str) -> float:
        values: list[float] = [getattr(each, name) for each in found]
        return statistics.median(values)

    seconds, partitions = median("seconds"), median("partitions")
    rates = [each.partitions / each.seconds * each.loop for each in found]
    return (
        f"{partitions:,.0f}",
        f"{shape.partitions:,}",
        f"{median('decided'):.2f} s",
        f"{median('applied'):.2f} s",
        f"{median('committed') * 1e3:.0f} ms",
        f"{seconds:.2f} s",
        f"{(max(each.seconds for each in found) - min(each.seconds for each in found)) / seconds:.0%}",
        f"{partitions / seconds:,.0f}",
        f"{statistics.median(rates):,.0f}",
        f"{median('held') * 1e3:.0f} ms",
        TARGETS.get(round(int(partitions), -4), ""),
    )


# -- by services ---------------------------------------------------------------------------------------


async def _live(shapes: Sequence[Shape]) -> Table:
    rows, data = [], []
    for shape in shapes:
        async with controllers(shape, session_timeout_ms=SESSION_TIMEOUT_MS) as there:
            everything = (*there.plan.quorum, *there.plan.controllers, there.plan.heartbeat)
            await there.spawn(*everything)
            await there.ready(*everything)
            async with _Brokers(there, shape) as brokers:
                found = [await _fall_silent(there, brokers, broker_id) for broker_id in victims(shape)]
        rows.append(_live_row(shape, found))
        data.append({"shape": str(shape), "rounds": [asdict(each) for each in found]})
    return Table(
        title=f"P13: {ROUNDS} brokers fall silent one after the other; three voters, three controllers, one tracker",
        columns=LIVE_COLUMNS,
        rows=rows,
        data=data,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Seconds from the end of a broker's session until it is in no ISR, committed, and what others waited meanwhile."""

    committed: float
    usual_read: float
    longest_read: float
    longest_heartbeat: float


async def _fall_silent(there: Controllers, brokers: _Brokers, broker_id: NodeId) -> Silence:
    """A read sees what is decided, and is answered when that is committed: so reads tell how far it is."""
    stub = there.stub(await there.active())
    ends = await brokers.silence(broker_id) + SESSION_TIMEOUT_MS / 1000
    usual = [await _read(stub, broker_id) for _ in range(READS)]
    assert not any(fenced for fenced, _ in usual), broker_id
    await asyncio.sleep(ends - time.perf_counter())
    brokers.longest = 0.0
    reads: list[tuple[bool, float]] = []
    under_way = 0
    committed = 0.0

    async def read() -> None:
        nonlocal under_way, committed
        under_way += 1
        reads.append(await _read(stub, broker_id))
        under_way -= 1
        if reads[-1][0] and not committed:
            committed = time.perf_counter() - ends

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as reading:
        while not committed:
            if under_way < READS_UNDER_WAY_MAX:
                reading.create_task(read())
            await asyncio.sleep(READ_EVERY_S)
    return Silence(
        committed=committed,
        usual_read=statistics.median(seconds for _, seconds in usual),
        longest_read=max(seconds for _, seconds in reads),
        longest_heartbeat=brokers.longest,
    )


async def _read(stub: ControllerStub, broker_id: NodeId) -> tuple[bool, float]:
    """Is the broker fenced, and how many seconds did the answer take?"""
    begun = time.perf_counter()
    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer: DescribeClusterResponse = await stub.DescribeCluster(request, timeout=WITHIN_S)
    return answer.brokers[broker_id].is_fenced, time.perf_counter() - begun


class _Brokers:
    """The heartbeats of all brokers, on one stream, but of those that have fallen silent."""

    def __init__(self, there: Controllers, shape: Shape) -> None:
        self.longest = 0.0
        self._alive = list(range(shape.brokers))
        self._channel = open_channel(there.plan.heartbeat.address)
        self._told = asyncio.Condition()
        self._last = 0.0

    async def __aenter__(self) -> _Brokers:
        self._task = asyncio.ensure_future(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._channel.close()

    async def silence(self, broker_id: NodeId) -> float:
        """No heartbeat of this one any more; when the last one was answered."""
        async with self._told:
            self._alive.remove(broker_id)
            return self._last

    async def _beat(self) -> None:
        call = HeartbeatStub(self._channel).BrokerHeartbeatStream()
        while True:
            async with self._told:
                begun = time.perf_counter()
                for broker_id in self._alive:
                    await call.write(_heartbeat(broker_id))
                for _ in self._alive:
                    answer: Any = await call.read()  # the stubs say object
                    assert (0, False) == (answer.error_code, answer.is_fenced), answer
                self._last = time.perf_counter()
                self.longest = max(self.longest, self._last - begun)
            await asyncio.sleep(HEARTBEAT_EVERY_S)


def _heartbeat(broker_id: NodeId) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=broker_epoch(broker_id), current_metadata_offset=CHECKPOINT.offset
    )


def _live_row(shape: Shape, found: Sequence[Silence]) -> tuple[str, ...]:
    committed = [each.committed for each in found]
    usual = statistics.median(each.usual_read for each in found)
    return (
        f"{shape.partitions * REPLICATION_FACTOR // shape.brokers:,}",
        f"{shape.partitions:,}",
        f"{statistics.median(committed):.2f} s",
        f"{min(committed):.2f} s",
        f"{max(committed):.2f} s",
        f"{usual * 1e3:.1f} ms",
        f"{max(each.longest_read for each in found):.2f} s",
        f"{max(each.longest_heartbeat for each in found):.2f} s",
        LIVE_TARGETS.get(shape.partitions * REPLICATION_FACTOR // shape.brokers, ""),
    )
