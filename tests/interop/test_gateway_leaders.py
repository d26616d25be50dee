"""Who may lead on brokers of two releases: nobody in a directory that failed (KIP-858); an eligible replica (KIP-966).

Each broker has two log directories, and finds the leading controller by the voters in the log (KIP-853). The
tests are one story: each leaves all brokers ready and every replica in sync.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from quorate.cli.offline import load
from quorate.metadata.partitions import Partition
from quorate.nouns import uuid_text
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import eventually
from tests.interop.kafka.fleet import TOOLS, Fleet, fleet_of
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

BROKERS: Final = {101: OLDEST_POM, 102: OPERATIONS_POM, 103: OPERATIONS_POM}
LEVEL: Final = "4.0-IV3"
TOPIC: Final = "orders"
RECORDS: Final = 1000
SENT: Final = f"{RECORDS} records sent"
TOPICS: Final = TOOLS + "TopicCommand"
REASSIGN: Final = TOOLS + "reassign.ReassignPartitionsCommand"
CLEANLY_SHUT_DOWN: Final = ".kafka_cleanshutdown"
"""The file that a broker leaves in each directory when it ends in good order."""


class Brokers:
    """A fleet with two directories a broker."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self.fleet = fleet
        self._directory = directory

    def log_dirs(self, broker_id: int) -> list[Path]:
        return log_dirs(self._directory, broker_id)

    def id_of(self, log_dir: Path) -> str:
        """The directory id that the release's own formatter has given it."""
        meta = read_meta_properties(log_dir)
        assert meta is not None, log_dir
        assert meta.directory_id is not None, meta
        return uuid_text(meta.directory_id)

    async def partitions(self, topic: str = TOPIC) -> list[Partition]:
        """The partitions as the log of the leader has them."""
        state = load(self.fleet.plane.plan.log_dir(await self.fleet.plane.leader())).state
        topic_id = state.topics.id_of(topic)
        found = next(each for each in state.topics if each.id == topic_id)
        return [partition for _, partition in sorted(found.partitions.items())]

    async def directories(self, topic: str = TOPIC) -> list[dict[int, str]]:
        """For each partition the directory of each replica by broker."""
        return [
            dict(zip(each.replicas, map(uuid_text, each.directories), strict=True))
            for each in await self.partitions(topic)
        ]

    async def on_disk(self, topic: str = TOPIC) -> list[dict[int, str]]:
        """The same as kafka-log-dirs tells it, which asks the brokers."""
        said = await self.fleet.ask(TOOLS + "LogDirsCommand", "--describe", "--topic-list", topic)
        found: dict[int, dict[int, str]] = {}
        for broker in json.loads(said.splitlines()[-1])["brokers"]:
            for log_dir in broker["logDirs"]:
                for each in log_dir["partitions"]:
                    partition = int(each["partition"].rpartition("-")[2])
                    found.setdefault(partition, {})[broker["broker"]] = self.id_of(Path(log_dir["logDir"]))
        return [found[partition] for partition in sorted(found)]

    async def described(self, topic: str = TOPIC) -> Any:
        """The first partition as our controller tells it."""
        return (await self.fleet.plane.topics(at=1))[topic].partitions[0]


def log_dirs(directory: Path, broker_id: int) -> list[Path]:
    return [directory / f"broker-{broker_id}" / name for name in ("data-0", "data-1")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brokers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Brokers]:
    directory = tmp_path_factory.mktemp("leaders")

    def own(broker_id: int, _port: int) -> dict[str, object]:
        return {
            "log.dirs": ",".join(map(str, log_dirs(directory, broker_id))),
            "replica.high.watermark.checkpoint.interval.ms": 500,  # so often it writes into each directory
        }

    async with fleet_of(directory, BROKERS, level=LEVEL, settings_of=own, dynamic=True) as fleet:
        create = ("--create", "--topic", TOPIC, "--partitions", 4, "--replication-factor", 3)
        await fleet.ask(TOPICS, *create, "--config", "min.insync.replicas=2")
        yield Brokers(fleet, directory)


async def test_they_find_the_next_controller_when_that_of_before_is_gone(brokers: Brokers) -> None:
    """They know it from the voters in the log alone; so does one that starts again."""
    plane, create = brokers.fleet.plane, ("--create", "--if-not-exists", "--topic", "found", "--replication-factor", 3)
    active = await plane.active()
    for each in (plane.controller(active), plane.plan.gateways[active - 1], plane.quorum(active)):
        await plane.kill(each)
    await brokers.fleet.ask(TOPICS, *create)
    await plane.heal()
    produced = await brokers.fleet.produce("found", RECORDS)
    await brokers.fleet.stop(102)
    await brokers.fleet.start(102)
    await brokers.fleet.in_sync("found")

    assert produced.startswith(SENT)
    assert RECORDS == len(await brokers.fleet.consume("found", RECORDS))


async def test_the_brokers_say_where_their_replicas_are(brokers: Brokers) -> None:
    """AssignReplicasToDirs: who creates a topic does not say into which directory a replica goes."""
    on_disk = await eventually(brokers.on_disk, lambda seen: [3, 3, 3, 3] == list(map(len, seen)))

    assert on_disk == await eventually(brokers.directories, lambda seen: seen == on_disk)
    for broker_id in BROKERS:  # a broker fills its directories evenly
        both = [brokers.id_of(each) for each in brokers.log_dirs(broker_id)]
        assert sorted(2 * both) == sorted(each[broker_id] for each in on_disk)


async def test_a_replica_moves_between_the_directories_of_a_broker(brokers: Brokers, tmp_path: Path) -> None:
    await brokers.fleet.produce(TOPIC, RECORDS)
    partition, plan = (await brokers.partitions())[0], tmp_path / "plan.json"
    at = uuid_text(partition.directories[partition.replicas.index(102)])
    goal = next(each for each in brokers.log_dirs(102) if brokers.id_of(each) != at)
    where = [str(goal) if replica == 102 else "any" for replica in partition.replicas]
    wanted = {"topic": TOPIC, "partition": 0, "replicas": list(partition.replicas), "log_dirs": where}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    await brokers.fleet.ask(REASSIGN, "--reassignment-json-file", plan, "--execute")

    async def told() -> str:
        return (await brokers.directories())[0][102]

    await eventually(told, lambda seen: seen == brokers.id_of(goal))
    verify = ("--reassignment-json-file", plan, "--verify")
    await brokers.fleet.ask_until(lambda seen: "completed successfully" in seen, REASSIGN, *verify)
    assert brokers.id_of(goal) == (await brokers.on_disk())[0][102]


async def test_leaders_leave_a_directory_that_failed_and_the_broker_stays(brokers: Brokers) -> None:
    fleet = brokers.fleet
    _, failed = brokers.log_dirs(102)  # the first one has the metadata log: without it the broker would end
    failed_id = brokers.id_of(failed)
    await lead(brokers, 102)
    aside = failed.with_name("aside")
    failed.rename(aside)
    failed.touch()  # a file: what is to be written into the directory fails

    def in_failed(partition: Partition) -> bool:
        return uuid_text(partition.directories[partition.replicas.index(102)]) == failed_id

    def left(partitions: list[Partition]) -> bool:
        return all((102 in each.isr and each.leader >= 0) != in_failed(each) for each in partitions)

    after = await eventually(brokers.partitions, left)
    produced = await fleet.produce(TOPIC, RECORDS)
    described = await fleet.ask(TOPICS, "--describe", "--topic", TOPIC)

    assert [each.leader == 102 for each in after] == [not in_failed(each) for each in after]
    assert {True, False} == set(map(in_failed, after))
    assert produced.startswith(SENT)
    assert fleet.brokers[102].is_running
    assert sum(map(in_failed, after)) == len(re.findall(r"Isr: (?!.*102)", described))

    # It starts without the directory, and then with it.
    await fleet.stop(102)
    await fleet.start(102)
    again = await eventually(brokers.partitions, left)
    await fleet.stop(102)
    failed.unlink()
    aside.rename(failed)
    await fleet.start(102)
    await fleet.in_sync(TOPIC)

    assert list(map(in_failed, after)) == list(map(in_failed, again))
    assert 2 * RECORDS == len(await fleet.consume(TOPIC, 2 * RECORDS))


async def lead(brokers: Brokers, broker_id: int) -> None:
    """Has a broker lead every partition: its replica is made the first one, and that one is elected."""
    fleet, plan = brokers.fleet, brokers.fleet.plane.plan.directory / "plan.json"
    partitions = await brokers.partitions()
    numbered = [{"topic": TOPIC, "partition": number} for number in range(len(partitions))]
    orders = [[broker_id, *(other for other in each.replicas if other != broker_id)] for each in partitions]
    wanted = [{**each, "replicas": order} for each, order in zip(numbered, orders, strict=True)]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    await fleet.ask(REASSIGN, "--reassignment-json-file", plan, "--execute")

    async def replicas() -> list[list[int]]:
        return [list(each.replicas) for each in await brokers.partitions()]

    await eventually(replicas, lambda seen: seen == orders)
    plan.write_text(json.dumps({"partitions": numbered}))
    await fleet.ask(TOOLS + "LeaderElectionCommand", "--election-type", "preferred", "--path-to-json-file", plan)
    await eventually(lambda: fleet.leaders(TOPIC), lambda seen: {broker_id} == set(seen))


async def test_an_eligible_replica_leads_and_one_that_lost_what_it_had_does_not(brokers: Brokers) -> None:
    """KIP-966. A broker that ends in good order is eligible until it comes back without the sign of it."""
    fleet = brokers.fleet
    await fleet.ask(TOOLS + "FeatureCommand", "upgrade", "--feature", "eligible.leader.replicas.version=1")
    create = ("--create", "--topic", "safe", "--replica-assignment", "101:102:103", "--config", "min.insync.replicas=2")
    await fleet.ask(TOPICS, *create)
    await fleet.in_sync("safe")
    produced = await fleet.produce("safe", RECORDS)

    await fleet.stop(103)
    await fleet.stop(102)
    shown = await fleet.ask_until(lambda seen: "Elr: 102\t" in seen, TOPICS, "--describe", "--topic", "safe")
    await fleet.stop(101)
    alone = await eventually(lambda: brokers.described("safe"), lambda seen: -1 == seen.leader_id)
    for log_dir in brokers.log_dirs(102):
        (log_dir / CLEANLY_SHUT_DOWN).unlink()
    await fleet.start(102)
    lost = await fleet.ask_until(lambda seen: "Elr: 101\t" in seen, TOPICS, "--describe", "--topic", "safe")
    await fleet.start(101)
    led = await eventually(lambda: brokers.described("safe"), lambda seen: -1 != seen.leader_id)
    await fleet.start(103)
    await fleet.in_sync("safe")
    healed = await eventually(lambda: brokers.described("safe"), lambda seen: not seen.eligible_leader_replicas.items)

    assert produced.startswith(SENT)
    assert re.search(r"Leader: 101\t.*Isr: 101\tElr: 102\tLastKnownElr: *$", shown, re.M)
    assert ([], [101, 102]) == (list(alone.isr_nodes), sorted(alone.eligible_leader_replicas.items))
    assert [101] == list(alone.last_known_elr.items)
    assert re.search(r"Leader: none\t.*Isr: *\tElr: 101\tLastKnownElr: 101 *$", lost, re.M)
    assert 101 == led.leader_id
    assert [] == list(healed.last_known_elr.items)
    assert RECORDS == len(await fleet.consume("safe", RECORDS))
