"""Records through three brokers of ours and through three of a Kafka release, each on its own controllers.

Both are alive at once and measured in turns: RF 3, `min.insync.replicas` 2, acks=all. The client is Kafka's own
performance tools, in one JVM for all rounds; only after a kill it is librdkafka, where a caller can choose the
partition.

* An idempotent producer writes records of 1 KiB in batches of 16 KiB and of nearly 1 MiB, as fast as it goes, and one
  record at a time, at 100 a second; the large batches are read from the beginning.
* A broker leads a thousand partitions, which the other two follow: the largest resident set of the three, the CPU of a
  broker while nobody asks anything, and the time from kill -9 of it until each partition has acknowledged a record.

Two rounds of writing and reading before do not count, as JVMs compile. `BESIDE_ROUNDS` is how many do, `BESIDE_ONLY`
has the rows to run, or parts of their names, between bars.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

import confluent_kafka

from deploy.kafka.release import SERVER
from tests.bench.both_sides import DEFAULTS, Rounds, run_both
from tests.bench.broker_sides import IDS, Side, kafkas_side, our_side
from tests.bench.measure import Table, memory
from tests.bench.targets import Target, target_table
from tests.interop.kafka.fleet import PERFORMANCE, TOOLS
from tests.interop.kafka.toolbox import Toolbox
from tests.interop.mixed_quorum import MixedQuorum

SIDES: Final = ("Kafka", "Quorate")
ROUNDS: Final = int(os.environ.get("BESIDE_ROUNDS", "3"))
ONLY: Final = os.environ.get("BESIDE_ONLY", "")
WARM_UP: Final = 2
CLIENT: Final = SERVER
"""Of the JVM of the tools, as by their scripts."""
PARTITIONS: Final = 3
KIB: Final = 1024
SMALL, LARGE, ONE = "batches of 16 KiB", "batches of 1 MiB", "one at a time"
READ, RESIDENT, REST, KILL = "read from the start", "resident set", "at rest", "kill -9"
COUNTS: Final = {SMALL: 40_000, LARGE: 100_000, ONE: 500}
PRODUCERS: Final[Mapping[str, tuple[str, ...]]] = {
    SMALL: ("batch.size=16384",),
    LARGE: ("batch.size=1000000", "max.request.size=2000000", "linger.ms=50", "buffer.memory=67108864"),
    ONE: ("linger.ms=0", "max.in.flight.requests.per.connection=1"),
}
THROUGHPUT: Final = {ONE: 100}
MANY: Final = 1_000
TOPIC: Final = "thousand"
LED: Final = tuple(IDS for _ in range(MANY))
"""The replicas of the thousand partitions: one broker leads all of them."""
SETTLED_S: Final = 5.0
REST_S: Final = 10.0
WRITTEN_WITHIN_S: Final = 120.0
LIBRDKAFKA: Final = {"acks": "all", "log_level": 0, "linger.ms": 0, "reconnect.backoff.max.ms": 500}
TARGETS: Final = (
    Target(f"{SMALL}, MB/s", at_least=0.6),
    Target(f"{SMALL}, CPU a MB, ms"),
    Target(f"{LARGE}, MB/s", at_least=1.0),
    Target(f"{LARGE}, CPU a MB, ms"),
    Target(f"{ONE}, p50, ms", at_most=1.0),
    Target(f"{ONE}, mean, ms"),
    Target(f"{ONE}, p99, ms", at_most=1.5),
    Target(f"{ONE}, CPU, ms"),
    Target(f"{READ}, MB/s", at_least=0.8),
    Target(f"{READ}, CPU a MB, ms"),
    Target(f"{RESIDENT}, MB", at_most=0.25),
    Target(f"{REST}, CPU of a broker, ms a second", at_most=0.5),
    Target(f"{KILL} until all are written to again, s", at_most=0.7),
)
"""The rows of the table, and what issue D asks of them."""
_SENT: Final = re.compile(r"\(([\d.]+) MB/sec\), ([\d.]+) ms avg.* (\d+) ms 50th.* (\d+) ms 99th")

Figures = Mapping[str, float]


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; some ten minutes for all rows."""
    return run_both(_measure, DEFAULTS)


def _is_asked(row: str) -> bool:
    return any(each in row for each in ONLY.split("|"))


async def _measure(kafkas: MixedQuorum, ours: MixedQuorum, life: AsyncExitStack) -> list[Table]:
    first = await kafkas_side(SIDES[0], kafkas, life)
    sides = (first, await our_side(SIDES[1], ours, life, with_groups=_is_asked(READ)))
    rounds = Rounds(ROUNDS)
    if any(map(_is_asked, (*PRODUCERS, READ))):
        await _records(sides, rounds, life.enter_context(Toolbox(options=CLIENT)))
    if any(map(_is_asked, (RESIDENT, REST, KILL))):
        await _thousands(sides, rounds)
    title = f"Beside Kafka's brokers, {MANY:,} partitions in the last three rows: {rounds.told}"
    return [target_table(title, TARGETS, rounds.found, SIDES)]


async def _records(sides: Sequence[Side], rounds: Rounds, tools: Toolbox) -> None:
    """The rows of records; the first rounds, which do not count, are not in `rounds`."""
    for number in range(WARM_UP):
        for side in sides:
            await _written_and_read(side, tools, f"warm-{number}")
    for number in rounds:
        for side in sides:
            rounds.add(side.name, await _written_and_read(side, tools, f"round-{number}"))


async def _written_and_read(side: Side, tools: Toolbox, prefix: str) -> Figures:
    found: dict[str, float] = {}
    for what, count in COUNTS.items():
        reads = what == LARGE and _is_asked(READ)
        if not _is_asked(what) and not reads:
            continue
        topic = f"{prefix}-{what.replace(' ', '-')}"
        await side.create(topic, [(*IDS[index:], *IDS[:index]) for index in range(PARTITIONS)])
        written = await _written(side, tools, topic, what)
        found |= written if _is_asked(what) else {}
        if reads:
            found |= await _read(side, tools, topic, count)
    return found


async def _written(side: Side, tools: Toolbox, topic: str, what: str) -> Figures:
    count, used = COUNTS[what], side.cpu_s
    records = ("--topic", topic, "--num-records", count, "--record-size", KIB)
    pace = ("--throughput", THROUGHPUT.get(what, -1))
    to = ("--producer-props", f"bootstrap.servers={side.servers}", "acks=all", *PRODUCERS[what])
    said = (await tools.run(PERFORMANCE, *records, *pace, *to)).splitlines()[-1]
    cpu_ms = (side.cpu_s - used) * 1000
    match = _SENT.search(said)
    assert match is not None, said
    rate, mean, half, most = map(float, match.groups())
    if what == ONE:
        return {
            f"{what}, p50, ms": half,
            f"{what}, mean, ms": mean,
            f"{what}, p99, ms": most,
            f"{what}, CPU, ms": cpu_ms / count,
        }
    return {f"{what}, MB/s": rate, f"{what}, CPU a MB, ms": cpu_ms / (count * KIB / 1e6)}


async def _read(side: Side, tools: Toolbox, topic: str, count: int) -> Figures:
    """MB (2^20 bytes) a second, without the time until the group has its partitions."""
    used = side.cpu_s
    arguments = ("--bootstrap-server", side.servers, "--topic", topic, "--messages", count, "--hide-header")
    said = await tools.run(TOOLS + "ConsumerPerformance", *arguments)
    *_, fetch_mb_s, _ = said.splitlines()[-1].split(", ")
    cpu_ms = (side.cpu_s - used) * 1000
    return {f"{READ}, MB/s": float(fetch_mb_s), f"{READ}, CPU a MB, ms": cpu_ms / (count * KIB / 1e6)}


async def _thousands(sides: Sequence[Side], rounds: Rounds) -> None:
    """The rows of a thousand partitions."""
    for side in sides:
        await side.create(TOPIC, LED)
    await asyncio.sleep(SETTLED_S)
    for _ in rounds:
        for side in sides:
            if _is_asked(RESIDENT):
                rounds.add(
                    side.name, {f"{RESIDENT}, MB": max(memory(side.pid(each))["resident"] for each in IDS) / 1e6}
                )
            if _is_asked(REST):
                rounds.add(side.name, await _at_rest(side))
            if _is_asked(KILL):
                rounds.add(side.name, await _killed(side))


async def _at_rest(side: Side) -> Figures:
    used = side.cpu_s
    await asyncio.sleep(REST_S)
    return {f"{REST}, CPU of a broker, ms a second": (side.cpu_s - used) * 1000 / REST_S / len(IDS)}


async def _killed(side: Side) -> Figures:
    """From kill -9 of the leader until each partition has acknowledged a record; then all is as before."""
    producer = confluent_kafka.Producer({"bootstrap.servers": side.servers, **LIBRDKAFKA})
    await asyncio.to_thread(_write_to_each, producer)
    struck = IDS[0]
    began = time.perf_counter()
    await side.kill(struck)
    await asyncio.to_thread(_write_to_each, producer)
    took = time.perf_counter() - began
    await side.start(struck)
    await side.in_sync(TOPIC, LED)
    await side.prefer()
    await side.led(TOPIC, LED)
    await asyncio.sleep(SETTLED_S)
    return {f"{KILL} until all are written to again, s": took}


def _write_to_each(producer: confluent_kafka.Producer) -> None:
    """One record to each partition; returns once all are acknowledged."""
    told: list[confluent_kafka.KafkaError | None] = []
    for partition in range(MANY):
        producer.produce(TOPIC, b"a record", partition=partition, on_delivery=lambda error, _: told.append(error))
    left = producer.flush(WRITTEN_WITHIN_S)

    assert (0, [None] * MANY) == (left, told), (left, [each for each in told if each is not None][:3])
