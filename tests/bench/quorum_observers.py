"""P17: what observers cost the leader.

As a program it is the observers: `python -m tests.bench.quorum_observers host:port count` fetches until it is ended.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from deploy.local.plan import Process
from kraft.api.fetch_pb2 import FetchRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, uuid_text
from quorate.runtime.client import open_channel
from quorate.wire.batch import batches
from tests.bench.measure import REPEATS, Table
from tests.bench.quorum_nodes import Writer, cpu_seconds, quorum, run_loop, value

COUNTS: Final = {0: 0.0, 10: 0.05, 100: 0.15}
"""How many there are, and what they may cost."""
IN_FLIGHT: Final = 64
FLOOD_S: Final = 2.0
SETTLE_S: Final = 1.0
FIRST_ID: Final = 1_000
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 8 << 20


def run() -> list[Table]:
    """The same load with none, some, many; in turns, so that a busy minute meets all of them."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    rates: dict[int, list[float]] = {count: [] for count in COUNTS}
    costs: dict[int, list[float]] = {count: [] for count in COUNTS}
    record = value()
    async with quorum() as (plan, running), Writer(plan.quorum) as writer:
        await writer.active()
        leader = writer.leader
        assert leader is not None
        for _ in range(REPEATS):
            for count in COUNTS:
                async with observers(leader, count, start=writer.committed, epoch=writer.epoch):
                    before = cpu_seconds(running.pid(leader))
                    rate, took = await writer.flood(record, in_flight=IN_FLIGHT, seconds=FLOOD_S)
                    costs[count].append((cpu_seconds(running.pid(leader)) - before) / len(took))
                    rates[count].append(rate)
    rows, data = [], []
    for count, most in COUNTS.items():
        loss = statistics.median(1 - rate / alone for rate, alone in zip(rates[count], rates[0], strict=True))
        rows.append(
            (
                str(count),
                f"{statistics.median(rates[count]):,.0f}",
                f"{loss:.0%}" if count else "",
                f"{statistics.median(costs[count]) * 1e6:.0f} µs",
                f"≤ {most:.0%} (P17)" if count else "",
            )
        )
        data.append({"observers": count, "rates": rates[count], "loss": loss})
    columns = ("observers", "appends/s", "loss", "CPU of the leader per append", "target")
    return [Table(title=f"P17: {IN_FLIGHT} appends in flight, and observers", columns=columns, rows=rows, data=data)]


@asynccontextmanager
async def observers(leader: Process, count: int, *, start: int, epoch: int) -> AsyncIterator[None]:
    """So many follow the leader's log from `start` on, in a process of their own."""
    if count == 0:
        yield
        return
    arguments = (leader.address, str(count), str(start), str(epoch))
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.bench.quorum_observers", *arguments)
    await asyncio.sleep(SETTLE_S)
    try:
        yield
        assert child.returncode is None, child.returncode
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def observe(stub: QuorumStub, replica_id: int, offset: int, epoch: int) -> None:
    """Fetch for ever, as a broker does."""
    call = stub.FetchStream()
    high_watermark = -1
    partition = FetchRequest.FetchTopic.FetchPartition
    while True:
        topic = FetchRequest.FetchTopic(
            topic_id=uuid_text(METADATA_TOPIC_ID),
            partitions=[
                partition(
                    partition=METADATA_PARTITION,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    last_fetched_epoch=epoch,
                    high_watermark=high_watermark,
                )
            ],
        )
        state = FetchRequest.ReplicaState(replica_id=replica_id)
        await call.write(
            FetchRequest(replica_state=state, max_wait_ms=MAX_WAIT_MS, max_bytes=MAX_BYTES, topics=[topic])
        )
        response: Any = await call.read()  # the stubs say object, since it may be the end
        answer = response.responses[0].partitions[0]
        assert not answer.error_code, answer
        for _, header in batches(answer.records):
            offset = header.next_offset
        high_watermark = max(high_watermark, answer.high_watermark)


async def main(address: str, count: int, start: int, epoch: int) -> None:
    """All of them, on one connection."""
    async with open_channel(address) as channel, asyncio.TaskGroup() as tasks:
        stub = QuorumStub(channel)
        for number in range(count):
            tasks.create_task(observe(stub, FIRST_ID + number, start, epoch))


if __name__ == "__main__":
    run_loop(main(sys.argv[1], *map(int, sys.argv[2:])))
