"""Records through three brokers of ours and through three of a Kafka release, in one cluster, measured in turns.

Each side leads and follows among itself, RF 3, `min.insync.replicas` 2; the client is Kafka's own performance tool, in
one JVM for all rounds. Written is with acks=all by an idempotent producer: records of 1 KiB in batches of 16 KiB and of
nearly 1 MiB, as fast as it goes, and one record at a time at 100 a second; then all is read from the beginning. CPU is
that of the side's three brokers. Two rounds before do not count: JVMs compile. `RECORDS_ROUNDS` is how many do.

Then each side gets a thousand partitions, each broker leading a third: the largest resident set, the CPU of all three
while nobody asks anything, and the time from kill -9 of a broker until all that it led has another leader.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.kafka.release import POM, SERVER
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from quorate.nouns import NodeId
from tests.bench.both_sides import Rounds
from tests.bench.measure import Table, cpu_seconds, memory, ratio_table
from tests.bench.quorum_nodes import QUIET
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.own_brokers import OwnBrokers
from tests.interop.kafka.fleet import PERFORMANCE, TOOLS, Fleet, fleet_of
from tests.run_loop import run_loop

OURS, KAFKAS = (101, 102, 103), (201, 202, 203)
KAFKA, QUORATE = SIDES = ("Kafka's brokers", "Quorate's")
ROUNDS: Final = int(os.environ.get("RECORDS_ROUNDS", "3"))
WARM_UP: Final = 2
LEVEL: Final = "4.0-IV3"
HEAP: Final = "-Xmx1g"
"""Of a broker, as kafka-server-start.sh has it."""
SESSION_TIMEOUT_MS: Final = 9_000
"""Kafka's default."""
PARTITIONS: Final = 3
KIB: Final = 1024
SMALL, LARGE, ONE = "batches of 16 KiB", "batches of 1 MiB", "one at a time"
COUNTS: Final = {SMALL: 30_000, LARGE: 60_000, ONE: 500}
PRODUCERS: Final[Mapping[str, tuple[str, ...]]] = {
    SMALL: ("batch.size=16384",),
    LARGE: ("batch.size=1000000", "max.request.size=2000000", "linger.ms=50", "buffer.memory=67108864"),
    ONE: ("linger.ms=0", "max.in.flight.requests.per.connection=1"),
}
THROUGHPUT: Final = {ONE: 100}
TIMEOUT_MS: Final = 60_000
MANY: Final = 1_000
SETTLED_S: Final = 10.0
REST_S: Final = 10.0
_SENT: Final = re.compile(r"\(([\d.]+) MB/sec\).* (\d+) ms 50th.* (\d+) ms 99th")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Three brokers of one make."""

    ids: Sequence[NodeId]
    servers: str
    pids: Callable[[], Sequence[int]]

    @property
    def cpu_s(self) -> float:
        return sum(map(cpu_seconds, self.pids()))


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; some minutes."""
    os.environ.update(QUIET)
    return run_loop(_measured())


async def _measured() -> list[Table]:
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    try:
        releases = dict.fromkeys(KAFKAS, POM)
        async with fleet_of(
            directory, releases, level=LEVEL, options=(*SERVER, HEAP), session_timeout_ms=SESSION_TIMEOUT_MS
        ) as fleet:
            own = OwnBrokers(fleet.plane, ids=OURS, settings={"broker.heartbeat.interval.ms": "2000"})
            await own.start()
            sides = {
                KAFKA: Side(
                    ids=KAFKAS,
                    servers=fleet.bootstrap_servers,
                    pids=lambda: [node.pid for node in fleet.brokers.values()],
                ),
                QUORATE: Side(
                    ids=OURS,
                    servers=",".join(own[each].kafka_address for each in OURS),
                    pids=lambda: [fleet.plane.running.pid(own[each]) for each in OURS],
                ),
            }
            await _create(fleet, "__consumer_offsets", KAFKAS, 1)
            rounds, many = Rounds(ROUNDS), Rounds(1)
            for number in range(WARM_UP):
                for side in sides.values():
                    await _round(fleet, side, f"warm-{number}-{side.ids[0]}")
            for number in rounds:
                for name, side in sides.items():
                    rounds.add(name, await _round(fleet, side, f"round-{number}-{side.ids[0]}"))
            for side in sides.values():
                await _create(fleet, f"many-{side.ids[0]}", side.ids, MANY)
            for side in sides.values():
                await _whole(fleet, f"many-{side.ids[0]}", side)
            for name, side in sides.items():
                many.add(name, await _at_rest(side))
            for name, side in sides.items():
                many.add(name, await _failed_over(fleet, side, f"many-{side.ids[0]}"))
    finally:
        shutil.rmtree(directory)
    title = f"Records of 1 KiB, RF 3, acks=all: {rounds.told}"
    return [
        ratio_table(title, "what", rounds.found, SIDES),
        _many_table(many.found),
    ]


def _many_table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    rows, data = [], []
    for what, by_side in found.items():
        theirs, ours = (by_side[name][0] for name in SIDES)
        rows.append((what, f"{theirs:,.2f}", f"{ours:,.2f}", f"{ours / theirs:.2f}"))
        data.append({"what": what, KAFKA: theirs, QUORATE: ours})
    return Table(
        title=f"{MANY:,} partitions of RF 3 on three brokers, once",
        columns=("what", *SIDES, "ratio"),
        rows=rows,
        data=data,
    )


async def _round(fleet: Fleet, side: Side, topic: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for what, count in COUNTS.items():
        name = f"{topic}-{what.replace(' ', '-')}"
        await _create(fleet, name, side.ids, PARTITIONS)
        await fleet.in_sync(name)
        used = side.cpu_s
        said = await _produced(fleet, side, name, what)
        cpu_s = side.cpu_s - used
        match = _SENT.search(said)
        assert match is not None, said
        rate, half, most = map(float, match.groups())
        if what == ONE:
            found |= {f"{what}, p50": half / 1000, f"{what}, p99": most / 1000, f"{what}, CPU": cpu_s / count}
            continue
        found |= {f"{what}, MB/s": rate, f"{what}, CPU a MB": cpu_s / (count * KIB / 1e6)}
        used = side.cpu_s
        found[f"{what}, read, MB/s"] = await _consumed(fleet, side, name, count)
        found[f"{what}, read, CPU a MB"] = (side.cpu_s - used) / (count * KIB / 1e6)
    return found


async def _at_rest(side: Side) -> dict[str, float]:
    await asyncio.sleep(SETTLED_S)
    used = side.cpu_s
    await asyncio.sleep(REST_S)
    resident = [memory(pid)["resident"] for pid in side.pids()]
    return {
        "resident set of a broker, MB": max(resident) / 1e6,
        "CPU of all three at rest, s a second": (side.cpu_s - used) / REST_S,
    }


async def _whole(fleet: Fleet, topic: str, side: Side) -> None:
    """Waits until each replica is in the ISR."""
    members = {*side.ids}
    await eventually(
        lambda: _partitions(fleet, topic), lambda found: all({*each.isr_nodes} == members for each in found)
    )


async def _failed_over(fleet: Fleet, side: Side, topic: str) -> dict[str, float]:
    """From kill -9 of a broker until no partition has it as its leader."""
    struck = side.ids[0]
    os.kill(side.pids()[0], signal.SIGKILL)
    began = time.perf_counter()
    await eventually(
        lambda: _partitions(fleet, topic), lambda found: not {struck, -1} & {each.leader_id for each in found}
    )
    return {"kill -9 of a broker until all have another leader, s": time.perf_counter() - began}


async def _partitions(fleet: Fleet, topic: str) -> Sequence[Any]:
    """Of a topic that fits into a page."""
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name=topic)])
    answer = await call_with_retries(fleet.plane.controller_stub(1).DescribeTopicPartitions, request)
    found: Sequence[Any] = answer.response.topics[0].partitions
    return found


async def _create(fleet: Fleet, topic: str, ids: Sequence[NodeId], partitions: int) -> None:
    """Each broker of the side leads in turn."""
    asked = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1)
    for index in range(partitions):
        asked.assignments.add(partition_index=index, broker_ids=[*ids[index % 3 :], *ids[: index % 3]])
    asked.configs.add(name="min.insync.replicas", value="2")
    request = CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS)
    answer = await call_with_retries(fleet.plane.controller_stub(1).CreateTopics, request)
    assert not answer.response.topics[0].error_code, answer.response


async def _produced(fleet: Fleet, side: Side, topic: str, what: str) -> str:
    """The last line of what the tool says: rate and latencies of all records."""
    records = ("--topic", topic, "--num-records", COUNTS[what], "--record-size", KIB)
    pace = ("--throughput", THROUGHPUT.get(what, -1))
    to = ("--producer-props", f"bootstrap.servers={side.servers}", "acks=all", *PRODUCERS[what])
    said = await fleet.run(PERFORMANCE, *records, *pace, *to)
    return said.splitlines()[-1]


async def _consumed(fleet: Fleet, side: Side, topic: str, count: int) -> float:
    """MB (10^6 bytes) a second, without the time until the group has its partitions."""
    arguments = ("--bootstrap-server", side.servers, "--topic", topic, "--messages", count, "--hide-header")
    said = await fleet.run(TOOLS + "ConsumerPerformance", *arguments)
    *_, fetch_mb_s, _ = said.splitlines()[-1].split(", ")
    return float(fetch_mb_s)
