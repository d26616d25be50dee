"""What each client of another make writes and reads at a broker of ours and at one of Kafka's: `make clients` has it.

Both are of one cluster, and replicate each other's partitions. Each client has a topic that ours leads and one that
Kafka's leads, does the same with both, and the lines of both are compared. Then the two replicas of each topic are
compared byte for byte, and Kafka's own tool reads every record of ours. It ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.kafka.node import tool
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from quorate.errors import ErrorCode
from quorate.nouns import NodeId
from quorate.wire.batch import batches
from services.broker.coordinators import TOPICS
from tests.clients.__main__ import MADE, Client, differences, is_there, said_by
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.own_brokers import OwnBrokers
from tests.interop.kafka.fleet import TOOLS, Fleet, fleet_of
from tests.interop.kafka.release import OPERATIONS_POM
from tests.run_loop import run_loop

OURS: Final = 101
KAFKAS: Final = 102
LEADERS: Final = {"ours": OURS, "theirs": KAFKAS}
LEVEL: Final = "4.4-IV2"
TIMEOUT_MS: Final = 30_000
SEGMENT: Final = "00000000000000000000.log"


def _python(module: str) -> Client:
    return Client((sys.executable, "-m", f"tests.clients.{module}"))


CLIENTS: Final[Mapping[str, Client]] = {
    "confluent-kafka 2.16.1 (librdkafka)": _python("writes_by_confluent_kafka"),
    "kafka-python 3.0.12": _python("writes_by_kafka_python"),
    "aiokafka 0.14.0": _python("writes_by_aiokafka"),
    "franz-go 1.22.3": Client((str(MADE / "go/franzrecords"),), "go"),
    "sarama 1.61.1": Client((str(MADE / "go/saramarecords"),), "go"),
    "Kafka's tools 4.4.0": _python("writes_by_kafkas_tools"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A broker of ours and one of Kafka's."""

    fleet: Fleet
    own: OwnBrokers

    @property
    def servers(self) -> str:
        return f"{self.own[OURS].kafka_address},{self.fleet.bootstrap_servers}"

    async def create(self, topic: str, *replicas: NodeId) -> None:
        """A topic of one partition, led by the first of these. It keeps records, as old as theirs are (2023)."""
        asked = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1)
        asked.assignments.add(partition_index=0, broker_ids=replicas)
        asked.configs.add(name="retention.ms", value="-1")
        stub = self.fleet.plane.controller_stub(1)
        answer = await call_with_retries(stub.CreateTopics, CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS))
        assert ErrorCode.NONE == answer.response.topics[0].error_code, answer.response
        await self.fleet.in_sync(topic)

    def logs(self, topic: str) -> dict[str, bytes]:
        """The bytes of each replica."""
        (disk,) = self.own.disks(OURS)
        theirs = self.fleet.plane.plan.directory / f"broker-{KAFKAS}" / "data"
        return {"ours": _log(disk / f"{topic}-0"), "theirs": _log(theirs / f"{topic}-0")}

    async def judge(self, topic: str) -> list[str]:
        """What is wrong with the replicas of a topic; waits until they have the same length."""

        async def logs() -> dict[str, bytes]:
            return self.logs(topic)

        found = await eventually(logs, lambda seen: len(set(map(len, seen.values()))) == 1)
        (disk,) = self.own.disks(OURS)
        file = disk / f"{topic}-0" / SEGMENT
        how = ("--deep-iteration", "--files", file)
        dumped = await asyncio.to_thread(tool, TOOLS + "DumpLogSegments", *how, pom=OPERATIONS_POM)
        codecs = {header.attributes & 7 for _, header in batches(found["ours"])}
        problems = {
            "the replicas differ": found["ours"] != found["theirs"],
            f"codecs {sorted(codecs)}": codecs != {0, 1, 2, 3, 4},
            "DumpLogSegments finds invalid records": "isvalid: false" in dumped,
            "DumpLogSegments complains": any(each in dumped for each in ("Found", "rror", "mismatch")),
        }
        return [problem for problem, holds in problems.items() if holds]


def _log(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[Pair]:
    """The two brokers on three nodes of ours. Kafka's coordinates all groups."""
    async with fleet_of(directory, {KAFKAS: OPERATIONS_POM}, level=LEVEL) as fleet:
        gateways = {"gateway.endpoints": ",".join(each.kafka_address for each in fleet.plane.plan.gateways)}
        own = OwnBrokers(fleet.plane, ids=(OURS,), settings=gateways)
        await own.start()
        both = Pair(fleet, own)
        await both.create(TOPICS[0], KAFKAS)
        yield both


async def run(names: Sequence[str], directory: Path) -> tuple[dict[str, dict[str, list[str]]], dict[str, list[str]]]:
    """The lines of each client on both sides, and what is wrong with the logs."""
    lines: dict[str, dict[str, list[str]]] = {}
    wrong: dict[str, list[str]] = {}
    async with pair(directory) as both:
        for number, name in enumerate(names):
            lines[name], wrong[name] = {}, []
            for side, leader in LEADERS.items():
                topic = f"{number}-{side}"
                await both.create(topic, leader, *(each for each in LEADERS.values() if each != leader))
                command = (*CLIENTS[name].command, both.servers, topic)
                lines[name][side] = await asyncio.to_thread(said_by, command)
                wrong[name] += [f"{side}: {each}" for each in await both.judge(topic)]
    return lines, wrong


def main() -> int:
    """Prints the table; returns 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the clients whose names have this in them")
    parser.add_argument("--lines", action="store_true", help="print every line, too")
    asked = parser.parse_args()
    names = [name for name, client in CLIENTS.items() if asked.only in name and is_there(name, client)]
    if not names:
        return 0
    with tempfile.TemporaryDirectory() as directory:
        lines, wrong = run_loop(run(names, Path(directory)))
    print("| client | steps | differences | logs |\n|---|--:|---|---|")
    differ = False
    for name in names:
        found = differences(lines[name]["ours"], lines[name]["theirs"])
        differ = differ or bool(found or wrong[name])
        ends = f"{'; '.join(found) or 'none'} | {'; '.join(wrong[name]) or 'the same bytes'}"
        print(f"| {name} | {len(lines[name]['theirs'])} | {ends} |")
        for line in lines[name]["ours"] if asked.lines else ():
            print(f"    {line}", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
