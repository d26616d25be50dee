"""AlterPartition: how many ISR changes a second, one in a request as after a hiccup, a thousand as after a restart."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any, Final

from kraft.api.alter_partition_pb2 import AlterPartitionRequest, AlterPartitionResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.nouns import NodeId, uuid_text
from quorate.records import PartitionRecord
from quorate.wire.protobuf import to_struct
from tests.bench.controller_core import commit, standby, write
from tests.bench.controller_nodes import CALL_S, controllers
from tests.bench.measure import REPEATS, Table, ms, percentile
from tests.bench.synthetic import Shape, broker_epoch, topics
from tests.run_loop import run_loop

SIZES: Final = (100_000,)
BROKERS: Final = 30
WARM_UP: Final = 200
MANY: Final = 1_000
LOADS: Final = ((1, 1, 200), (1, 64, 1_024), (MANY, 1, 10), (MANY, 4, 20))
"""Partitions in a request, requests in flight, requests in a round."""
ALONE: Final = ((1, 1_000), (MANY, 10))
"""Partitions in a request, requests in a round."""


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """By services and in the engine alone, on clusters of so many partitions."""
    shapes = [Shape(partitions=size, brokers=BROKERS) for size in sizes]
    return [run_loop(_live(shapes)), _core(shapes)]


class _Leaders:
    """What leaders ask for: the last replica leaves the ISR of a partition, and next time comes back to it."""

    def __init__(self, shape: Shape) -> None:
        self._epochs: Counter[tuple[bytes, int]] = Counter()
        self._led: defaultdict[NodeId, list[PartitionRecord]] = defaultdict(list)
        for record in topics(shape):
            if isinstance(record, PartitionRecord):
                self._led[record.leader].append(record)

    def requests(self, lane: int, *, lanes: int, partitions: int, count: int) -> list[AlterPartitionRequest]:
        """What one of so many `lanes` sends in a row, which share no partition."""
        leader = lane % len(self._led)
        mine = self._led[leader][lane // len(self._led) :: -(-lanes // len(self._led))]
        partitions = min(partitions, len(mine))
        going_round = cycle(mine)
        return [self._request(leader, list(islice(going_round, partitions))) for _ in range(count)]

    def _request(self, leader: NodeId, partitions: Sequence[PartitionRecord]) -> AlterPartitionRequest:
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=broker_epoch(leader))
        topic_id = b""
        for partition in partitions:
            if partition.topic_id != topic_id:
                topic_id = partition.topic_id
                topic = request.topics.add(topic_id=uuid_text(partition.topic_id))
            epoch = self._epochs[topic_id, partition.partition_id]
            self._epochs[topic_id, partition.partition_id] += 1
            asked = topic.partitions.add(partition_index=partition.partition_id, partition_epoch=epoch)
            for member in partition.replicas[: -1 if epoch % 2 == 0 else None]:
                asked.new_isr_with_epochs.add(broker_id=member, broker_epoch=broker_epoch(member))
        return request


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One round of a load: the seconds of each request, and of all together."""

    partitions: int
    took: Sequence[float]
    seconds: float

    @property
    def rate(self) -> float:
        return self.partitions / self.seconds


# -- by services ---------------------------------------------------------------------------------------


async def _live(shapes: Sequence[Shape]) -> Table:
    rows, data = [], []
    for shape in shapes:
        leaders = _Leaders(shape)
        async with controllers(shape) as there:
            everything = (*there.plan.quorum, *there.plan.controllers)
            await there.spawn(*everything)
            await there.ready(*everything)
            stub = there.stub(await there.active())
            await _ask(stub, leaders.requests(0, lanes=1, partitions=1, count=WARM_UP))
            for partitions, in_flight, count in LOADS:
                found = [await _load(stub, leaders, partitions, in_flight, count) for _ in range(REPEATS)]
                rows.append((f"{shape.partitions:,}", *_row(found, in_flight, count)))
                data.append({"shape": str(shape), "in_flight": in_flight, "rounds": [asdict(each) for each in found]})
    return Table(
        title="AlterPartition, unary, to the active controller: partitions lose a replica, and it comes back",
        columns=(
            *("of partitions", "in a request", "in flight", "requests/s", "partitions/s", "spread", "p50", "p99"),
        ),
        rows=rows,
        data=data,
    )


async def _load(stub: ControllerStub, leaders: _Leaders, partitions: int, in_flight: int, count: int) -> _Round:
    """Each lane asks one request after the other; what is asked for is made before the clock starts."""
    lanes = [
        leaders.requests(lane, lanes=in_flight, partitions=partitions, count=count // in_flight)
        for lane in range(in_flight)
    ]
    begun = time.perf_counter()
    took = await asyncio.gather(*(_ask(stub, lane) for lane in lanes))
    seconds = time.perf_counter() - begun
    return _Round(
        partitions=sum(_size(request) for lane in lanes for request in lane),
        took=[each for lane in took for each in lane],
        seconds=seconds,
    )


async def _ask(stub: ControllerStub, requests: Sequence[AlterPartitionRequest]) -> list[float]:
    took = []
    for request in requests:
        begun = time.perf_counter()
        answer: AlterPartitionResponse = await stub.AlterPartition(request, timeout=CALL_S)
        took.append(time.perf_counter() - begun)
        _check(answer, _size(request))
    return took


def _size(request: AlterPartitionRequest) -> int:
    return sum(len(topic.partitions) for topic in request.topics)


def _check(answer: Any, partitions: int) -> None:
    """Every partition was changed. `answer` is the message or the struct."""
    codes = Counter(int(each.error_code) for topic in answer.topics for each in topic.partitions)
    assert {0: partitions} == codes, (codes, answer.error_code)


def _row(found: Sequence[_Round], in_flight: int, count: int) -> tuple[str, ...]:
    rates = [each.rate for each in found]
    took = [seconds for each in found for seconds in each.took]
    in_a_request = found[0].partitions // len(found[0].took)
    return (
        f"{in_a_request:,}",
        f"{in_flight}",
        f"{statistics.median(rates) / in_a_request:,.0f}",
        f"{statistics.median(rates):,.0f}",
        f"{(max(rates) - min(rates)) / statistics.median(rates):.0%}",
        ms(statistics.median(took)),
        ms(percentile(took, 99)),
    )


# -- in the engine -------------------------------------------------------------------------------------


def _core(shapes: Sequence[Shape]) -> Table:
    rows, data = [], []
    for shape in shapes:
        leaders, engine = _Leaders(shape), standby(shape)
        engine.claim(1, engine.next_offset)
        for partitions, count in ALONE:
            found = [_alone(engine, leaders, partitions, count) for _ in range(REPEATS)]
            rows.append((f"{shape.partitions:,}", *_row(found, 1, count)))
            data.append({"shape": str(shape), "rounds": [asdict(each) for each in found]})
    return Table(
        title="AlterPartition in the engine alone: decide, apply, encode, commit; of CPU",
        columns=(
            *("of partitions", "in a request", "in flight", "requests/s", "partitions/s", "spread", "p50", "p99"),
        ),
        rows=rows,
        data=data,
    )


def _alone(engine: Engine, leaders: _Leaders, partitions: int, count: int) -> _Round:
    requests = leaders.requests(0, lanes=1, partitions=partitions, count=count)
    commands = [alter_partition(to_struct(request), settings=ControllerSettings()) for request in requests]
    took = []
    for request, command in zip(requests, commands, strict=True):
        written = write(engine, command)
        seconds = written.decided + written.applied + sum(commit(engine, written))
        assert written.record_count == _size(request), written.record_count
        took.append(seconds)
    return _Round(partitions=sum(map(_size, requests)), took=took, seconds=sum(took))
