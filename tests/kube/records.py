"""Kafka's tools in a pod, as a client of the release's brokers: they write all the time, and read all of it.

The producer is idempotent, with acks=all. A key belongs to one partition, so that each partition is written to all the
time, and how long one stood still can be seen.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from deploy.kafka.release import QUICK, java
from tests.kube.places import ROOT, say
from tests.kube.pods import end_in_network, in_network, run_in_network
from tests.kube.release import Release
from tests.kube.tools import TOOLS, by_certificate
from tests.kube.waiting import until

PORT: Final = 9092
PARTITIONS: Final = 6
KEYS: Final = 60
A_SECOND: Final = 100
READ_MS: Final = 60_000
SETTINGS: Final = {"enable.idempotence": "true", "retries": 2**31 - 1}
"""By itself the tool tries nothing again."""
LOOK_UP: Final = "-Dsun.net.inetaddr.ttl=1"
"""A pod that is made anew has another address, and a JVM looks a name up again after 30 s."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The answers to a producer, and when (s)."""

    values: Mapping[tuple[int, int], str]
    """By partition and offset."""
    times: Mapping[int, list[float]]
    """By partition, in order."""
    failed: list[str]

    @property
    def longest_gap_s(self) -> float:
        """The longest time in which one partition acknowledged nothing."""
        gaps = (after - before for seen in self.times.values() for before, after in pairwise(seen))
        return max(gaps, default=0.0)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as Kafka's tools in a pod see it."""

    release: Release
    pod: Mapping[str, Any]
    name: str

    def create(self, *, replicas: int, min_isr: int) -> None:
        """Makes it. Raises SystemExit."""
        how = ("--partitions", PARTITIONS, "--replication-factor", replicas)
        self._run("TopicCommand", "--create", *how, "--config", f"min.insync.replicas={min_isr}")

    def delete(self) -> None:
        """Raises SystemExit."""
        self._run("TopicCommand", "--delete")

    @contextmanager
    def written(self, what: str) -> Iterator[Callable[[], int]]:
        """Records are written during the block, which gets the number of those acknowledged; then each is looked
        for."""
        file = self.release.directory / f"records-{what.replace(' ', '-').replace(':', '')}.jsonl"
        arguments = ("--throughput", A_SECOND, "--repeating-keys", KEYS, "--command-config", self._of_producer())
        options = (*QUICK, LOOK_UP)
        call = java(f"{TOOLS}VerifiableProducer", *self._where(), *arguments, options=options)
        with file.open("wb") as out:
            command = in_network(self.release, self.pod, "it", *call)
            producer = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)

        def count() -> int:
            if producer.poll() is not None:
                raise SystemExit(f"the producer has ended: {file.read_text()[-2000:]}")
            return len(read(file).values)

        try:
            until("each partition acknowledges records", lambda: count() and len(read(file).times) == PARTITIONS)
            yield count
            sofar = count()
            until("records are acknowledged on", lambda: count() > sofar + A_SECOND)
        finally:
            end_in_network(producer)
        self._look_for(what, read(file))

    def _look_for(self, what: str, told: Acknowledged) -> None:
        """Every record once, where it was acknowledged. Raises SystemExit."""
        values = {
            (partition, offset): value
            for partition in range(PARTITIONS)
            for offset, value in self._read(partition, 1 + max(last for at, last in told.values if at == partition))
        }
        begins = {partition: min(offset for at, offset in told.values if at == partition) for partition in told.times}
        seen = Counter(value for (partition, offset), value in values.items() if offset >= begins[partition])
        lost = {at: value for at, value in told.values.items() if values.get(at) != value}
        doubled = [value for value, times in seen.items() if times > 1]
        say(
            f"{what}: {len(told.values)} records acknowledged, {len(lost)} lost, {len(doubled)} doubled, "
            f"{len(told.failed)} refused; longest without one in a partition {told.longest_gap_s:.2f} s"
        )
        if lost or doubled or told.failed:
            raise SystemExit(f"{what}: lost {sorted(lost)[:10]}, doubled {doubled[:10]}, refused {told.failed[:10]}")

    def _read(self, partition: int, end: int) -> Iterator[tuple[int, str]]:
        """Offset and value of each record below an end."""
        where = ("--partition", partition, "--offset", "earliest", "--max-messages", end)
        shown = ("--formatter-property", "print.offset=true", "--timeout-ms", READ_MS)
        for line in self._run("consumer.ConsoleConsumer", *where, *shown).splitlines():
            if line.startswith("Offset:"):
                offset, _, value = line.removeprefix("Offset:").partition("\t")
                yield int(offset), value

    def _run(self, tool: str, *arguments: object) -> str:
        where = (*self._where(), "--command-config", by_certificate(self.release))
        return run_in_network(self.release, self.pod, "it", *java(TOOLS + tool, *where, *arguments))

    def _where(self) -> tuple[object, ...]:
        return ("--bootstrap-server", f"{self.release.host('bootstrap')}:{PORT}", "--topic", self.name)

    def _of_producer(self) -> Path:
        file = self.release.directory / "producer.properties"
        more = "".join(f"{key}={value}\n" for key, value in SETTINGS.items())
        file.write_text(by_certificate(self.release).read_text() + more)
        return file


def read(file: Path) -> Acknowledged:
    """What the whole lines of a producer's output say."""
    values: dict[tuple[int, int], str] = {}
    times: dict[int, list[float]] = defaultdict(list)
    failed: list[str] = []
    for line in file.read_text().splitlines():
        if not (line.startswith("{") and line.endswith("}")):
            continue
        event = json.loads(line)
        if event["name"] == "producer_send_success":
            values[event["partition"], event["offset"]] = event["value"]
            times[event["partition"]].append(event["timestamp"] / 1000)
        elif event["name"] == "producer_send_error":
            failed.append(f"{event['value']}: {event['message']}")
    return Acknowledged(values, times, failed)
