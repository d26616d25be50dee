"""P16: heartbeats at one tracker: unary, on a stream for each broker, and many in one message."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import BrokerHeartbeatsRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.nouns import NodeId
from quorate.runtime.clients.client import open_channel
from tests.bench.controller_nodes import CHECKPOINT, controllers
from tests.bench.measure import REPEATS, Table, cpu_seconds
from tests.bench.synthetic import Shape, broker_epoch
from tests.run_loop import run_loop

SHAPE: Final = Shape(partitions=5_000, brokers=5_000)
"""As many brokers as P16 speaks of: at one heartbeat in two seconds of each, 2,500 a second."""
SECONDS: Final = 2.0
STREAMS: Final = ((1, ""), (64, "≥ 8,000/s (P16)"))
"""How many, and the target. A server takes a hundred of one connection."""
IN_MESSAGE: Final = ((100, "≥ 100,000/s (P16)"), (1_000, ""))
MESSAGES_UNDER_WAY: Final = 4
COLUMNS: Final = ("door", "in flight", "heartbeats/s", "least", "most", "CPU of the tracker", "target")

Say = Callable[[float], Awaitable[int]]
"""Heartbeats until that moment; how many were answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One round: how many heartbeats a second, and the tracker's CPU for each, in seconds."""

    rate: float
    cpu: float


def run() -> list[Table]:
    """A tracker beside one quorum node; this process is all brokers at once. Nothing changes, so no controller runs."""
    return [run_loop(_measure())]


async def _measure() -> Table:
    rows, data = [], []
    async with controllers(SHAPE, voters=1) as there:
        await there.spawn(*there.plan.quorum, there.plan.heartbeat)
        await there.ready(*there.plan.quorum, there.plan.heartbeat)
        pid = there.running.pid(there.plan.heartbeat)
        async with open_channel(there.plan.heartbeat.address) as channel:
            for door, in_flight, say, target in _doors(HeartbeatStub(channel)):
                await say(time.perf_counter() + SECONDS / 10)
                found = [await _round(pid, say) for _ in range(REPEATS)]
                rows.append((door, in_flight, *_row(found), target))
                data.append({"door": door, "in_flight": in_flight, "rounds": [asdict(each) for each in found]})
    return Table(
        title=f"P16: heartbeats of {SHAPE.brokers:,} brokers at one tracker, a client of one process",
        columns=COLUMNS,
        rows=rows,
        data=data,
    )


def _doors(stub: HeartbeatStub) -> list[tuple[str, str, Say, str]]:
    """Each with what is in flight at once, and its target."""
    return [
        ("unary", "64", partial(_unary, stub, 64), ""),
        *(("streams, one each", str(count), partial(_streams, stub, count), target) for count, target in STREAMS),
        *(
            (f"{size:,} in a message", f"{size * MESSAGES_UNDER_WAY:,}", partial(_gathered, stub, size), target)
            for size, target in IN_MESSAGE
        ),
    ]


async def _round(pid: int, say: Say) -> Figure:
    cpu, began = cpu_seconds(pid), time.perf_counter()
    count = await say(began + SECONDS)
    seconds = time.perf_counter() - began
    return Figure(rate=count / seconds, cpu=(cpu_seconds(pid) - cpu) / count)


def _row(found: Sequence[Figure]) -> tuple[str, ...]:
    rates = [each.rate for each in found]
    cpu = statistics.median(each.cpu for each in found)
    return f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}", f"{cpu * 1e6:.1f} µs"


# -- the ways to say it --------------------------------------------------------------------------------


async def _unary(stub: HeartbeatStub, callers: int, ends: float) -> int:
    async def one(broker_id: NodeId) -> int:
        count = 0
        while time.perf_counter() < ends:
            check(await stub.BrokerHeartbeat(heartbeat(broker_id)))
            count += 1
        return count

    return sum(await asyncio.gather(*map(one, range(callers))))


async def _streams(stub: HeartbeatStub, streams: int, ends: float) -> int:
    """A stream for each broker, the next heartbeat when the last one is answered."""

    async def one(broker_id: NodeId) -> int:
        call, request, count = stub.BrokerHeartbeatStream(), heartbeat(broker_id), 0
        while time.perf_counter() < ends:
            await call.write(request)
            answer: Any = await call.read()  # the stubs say object
            check(answer)
            count += 1
        await call.done_writing()
        return count

    return sum(await asyncio.gather(*map(one, range(streams))))


async def _gathered(stub: HeartbeatStub, size: int, ends: float) -> int:
    """One stream; a few messages are under way, each of other brokers than the one before."""
    call, count, written = stub.BrokerHeartbeats(), 0, 0
    messages = [
        BrokerHeartbeatsRequest(heartbeats=map(heartbeat, range(first, first + size)))
        for first in range(0, SHAPE.brokers, size)
    ]
    while time.perf_counter() < ends or count < written * size:
        while time.perf_counter() < ends and written * size - count < size * MESSAGES_UNDER_WAY:
            await call.write(messages[written % len(messages)])
            written += 1
        answer: Any = await call.read()  # as above
        check(*answer.responses)
        count += len(answer.responses)
    await call.done_writing()
    return count


def heartbeat(broker_id: NodeId) -> BrokerHeartbeatRequest:
    """That of a broker that has read all there is, and wants nothing."""
    return BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=broker_epoch(broker_id), current_metadata_offset=CHECKPOINT.offset
    )


def check(*answers: BrokerHeartbeatResponse) -> None:
    """Every one was taken."""
    for answer in answers:
        assert (0, False) == (answer.error_code, answer.is_fenced), answer
