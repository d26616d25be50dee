"""A broker of our own and brokers of two Kafka releases in one ISR: each leads, each follows, each is killed.

The tests are one story: each leaves all brokers ready and every replica in sync.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import confluent_kafka
import msgspec
import pytest
import pytest_asyncio

from deploy.kafka.node import Properties, ToolFailed
from deploy.kafka.release import POM
from deploy.local.kafka import broker_of
from deploy.local.ports import HOST, free_ports
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorate.errors import ErrorCode
from quorate.network.client import connect
from quorate.nouns import NodeId
from quorate.wire.batch import batches
from services.broker.coordinators import TOPICS, TRANSACTION
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.own_brokers import OwnBrokers
from tests.e2e.records import Writer, consumed, lost, stored
from tests.interop.kafka.fleet import CONFIGS, CONSUMER, TOOLS, Fleet, fleet_of
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.kafka.transactions import Librdkafkas, Transactional, read, transactional

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

OURS: Final = 101
KAFKAS: Final = {102: POM, 103: OPERATIONS_POM}
ALL: Final = (OURS, *KAFKAS)
LEVEL: Final = "4.0-IV3"
SESSION_TIMEOUT_MS: Final = 6_000
MANY: Final = 200
TOPICS_TOOL: Final = TOOLS + "TopicCommand"
GROUP: Final = "readers"
TIMEOUT_MS: Final = 30_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PER_CODEC: Final = 20
SEGMENT: Final = "00000000000000000000.log"


@dataclass(frozen=True, slots=True)
class Mixed:
    """Three brokers, and where each keeps its logs."""

    fleet: Fleet
    own: OwnBrokers
    directory: Path

    @property
    def servers(self) -> str:
        return f"{self.own[OURS].kafka_address},{self.fleet.bootstrap_servers}"

    def replica(self, broker_id: NodeId, name: str) -> Path:
        (disk,) = self.own.disks(OURS) if broker_id == OURS else [self.directory / f"broker-{broker_id}" / "data"]
        return disk / name

    async def create(self, topic: str, *leaders: NodeId, replicas: tuple[NodeId, ...] = ALL) -> None:
        """A topic with a partition for each leader, and the other brokers as its followers."""
        asked = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1)
        for index, leader in enumerate(leaders):
            others = [each for each in replicas if each != leader]
            asked.assignments.add(partition_index=index, broker_ids=[leader, *others])
        if len(replicas) > 2:
            asked.configs.add(name="min.insync.replicas", value="2")
        stub = self.fleet.plane.controller_stub(1)
        answer = await call_with_retries(stub.CreateTopics, CreateTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS))
        assert ErrorCode.NONE == answer.response.topics[0].error_code, answer.response
        await self.fleet.in_sync(topic)

    async def coordinator(self, asked: NodeId) -> FindCoordinatorResponse.Coordinator:
        """Who coordinates the group, as this broker says."""
        own = self.own[OURS].kafka_address
        host, port = own.split(":") if asked == OURS else (HOST, self.fleet.ports[asked])
        async with await connect(host, int(port)) as client:
            request = FindCoordinatorRequest(coordinator_keys=(GROUP,))
            (found,) = (await client.ask_for(FindCoordinatorResponse, request)).coordinators
        return msgspec.structs.replace(found, error_message=None)  # Kafka's is "" without an error

    async def kill(self, broker_id: NodeId) -> None:
        if broker_id == OURS:
            await self.own.kill(OURS)
        else:
            await asyncio.to_thread(self.fleet.brokers[broker_id].kill)

    async def start(self, broker_id: NodeId) -> None:
        await (self.own.start(OURS) if broker_id == OURS else self.fleet.start(broker_id))


def coordinating(_broker_id: int, _port: int) -> Properties:
    """One partition of transactions, which either of Kafka's brokers coordinates."""
    return {"transaction.state.log.num.partitions": 1, "transaction.state.log.min.isr": 1}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mixed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mixed]:
    directory = tmp_path_factory.mktemp("mixed")
    async with fleet_of(
        directory, KAFKAS, level=LEVEL, session_timeout_ms=SESSION_TIMEOUT_MS, settings_of=coordinating
    ) as fleet:
        gateways = {"gateway.endpoints": ",".join(each.kafka_address for each in fleet.plane.plan.gateways)}
        own = OwnBrokers(fleet.plane, ids=(OURS,), settings=gateways)
        await own.start()
        brokers = Mixed(fleet, own, fleet.plane.plan.directory)
        for internal in (TOPICS[0], TOPICS[TRANSACTION]):  # ours coordinate nothing
            await brokers.create(internal, 102, replicas=(102, 103))
        yield brokers


async def test_each_leads_and_is_killed_and_what_was_acknowledged_is_in_every_log(mixed: Mixed) -> None:
    """A partition led by each under one producer. Ours is killed, then one of Kafka's; each comes back."""
    await mixed.create("orders", *ALL)
    async with Writer(mixed.servers, "orders", partitions=len(ALL), in_flight=1) as writer:
        await writer.more(MANY)
        for struck in ALL[:2]:
            await mixed.kill(struck)
            await writer.more(MANY)
            await mixed.start(struck)
            await mixed.fleet.in_sync("orders")
            await writer.more(MANY)
    ends = {index: max(offset for offset, _ in told) + 1 for index, told in writer.acknowledged.items()}
    seen = await asyncio.to_thread(consumed, mixed.servers, "orders", ends)
    await mixed.fleet.in_sync("orders")
    logs = {
        index: [stored(mixed.replica(each, f"orders-{index}"))[:end] for each in ALL] for index, end in ends.items()
    }

    assert [] == writer.problems
    assert {} == {index: gone for index, told in writer.acknowledged.items() if (gone := lost(told, seen[index]))}
    every = [value for values in seen.values() for value in values.values()]
    assert len(every) == len(set(every))
    assert {index: [log[0]] * len(ALL) for index, log in logs.items()} == logs
    assert ends == {index: len(log[0]) for index, log in logs.items()}


async def test_kafkas_own_producer_and_a_group_that_kafkas_brokers_coordinate(mixed: Mixed) -> None:
    """Tools that know our broker alone find the coordinator; a compressed batch is served as it was sent."""
    await mixed.create("lines", *ALL)
    said = await mixed.fleet.produce("lines", 1_000, "compression.type=zstd")
    told = [await mixed.coordinator(each) for each in ALL]
    read = await mixed.fleet.run(
        CONSUMER,
        *("--bootstrap-server", mixed.own[OURS].kafka_address, "--topic", "lines", "--group", GROUP),
        *("--from-beginning", "--max-messages", 1_000, "--timeout-ms", 120_000),
    )

    assert said.startswith("1000 records sent")
    assert told[0].node_id in KAFKAS
    assert told == [told[0]] * len(ALL)
    assert 1_000 == len([line for line in read.splitlines() if len(line) == 100])


async def test_kafkas_tools_change_and_describe_the_cluster_through_ours_alone(mixed: Mixed) -> None:
    """What controllers answer goes to a gateway in an Envelope; the rest our broker knows itself."""
    at = ("--bootstrap-server", mixed.own[OURS].kafka_address)
    run = mixed.fleet.run
    made = await run(TOPICS_TOOL, *at, "--create", "--topic", "made", "--partitions", 2, "--replication-factor", 3)
    await mixed.fleet.in_sync("made")
    again = await failing(mixed, TOPICS_TOOL, *at, "--create", "--topic", "made", "--partitions", 2)
    await run(CONFIGS, *at, "--alter", "--topic", "made", "--add-config", "retention.ms=3600000")

    async def described() -> str:
        return await run(TOPICS_TOOL, *at, "--describe", "--topic", "made")

    seen = await eventually(described, lambda said: "retention.ms=3600000" in said)
    brokers = await run(TOOLS + "BrokerApiVersionsCommand", *at)
    directories = await run(TOOLS + "LogDirsCommand", *at, "--describe", "--broker-list", OURS, "--topic-list", "made")

    assert "Created topic made." in made
    assert "TopicExistsException" in again
    assert 2 == len(re.findall(r"Partition: [01]\s+Leader: 10[123]\s+Replicas: (?:10[123],?){3}\s+Isr", seen))
    assert [f"id: {each}" for each in ALL if f"id: {each}" not in brokers] == []
    assert 2 == directories.count('"partition":"made-')


async def failing(mixed: Mixed, main: str, *arguments: object) -> str:
    with pytest.raises(ToolFailed) as failed:
        await mixed.fleet.run(main, *arguments)
    return str(failed.value)


async def test_batches_of_every_codec_are_the_same_bytes_in_every_log(mixed: Mixed) -> None:
    """Records that ours leads are stored by Kafka's as they were sent, and the other way round."""
    await mixed.create("codecs", OURS, 102)
    await asyncio.to_thread(write_by_every_codec, mixed.servers, "codecs", 2)
    ends = dict.fromkeys(range(2), len(CODECS) * PER_CODEC)
    seen = await asyncio.to_thread(consumed, mixed.servers, "codecs", ends)

    async def segments() -> dict[int, list[bytes]]:
        return {
            index: [(mixed.replica(each, f"codecs-{index}") / SEGMENT).read_bytes() for each in ALL] for index in ends
        }

    logs = await eventually(segments, lambda logs: all(len(set(map(len, each))) == 1 for each in logs.values()))
    assert {index: [log[0]] * len(ALL) for index, log in logs.items()} == logs
    assert [set(range(len(CODECS)))] * 2 == [{header.attributes & 7 for _, header in batches(logs[i][0])} for i in ends]
    assert ends == {index: len(set(values.values())) for index, values in seen.items()}


def write_by_every_codec(servers: str, topic: str, partitions: int) -> None:
    for codec in CODECS:
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
        for index in range(partitions):
            for number in range(PER_CODEC):
                producer.produce(topic, f"{codec} {number} {'x' * 100}", partition=index)
        assert 0 == producer.flush(60)


TRANSACTIONS_TOOL: Final = TOOLS + "TransactionsCommand"


@pytest.mark.parametrize("kind", ["kafka", "librdkafka"])
async def test_what_is_committed_is_read_and_what_is_aborted_is_not(mixed: Mixed, kind: str) -> None:
    """Transactions over partitions of all three brokers. Kafka's own producer leaves it to the leaders to add them."""
    topic = f"paid-{kind}"
    await mixed.create(topic, *ALL)
    with transactional(kind, mixed.servers, topic) as producer:
        for number, commits in enumerate((True, False, True, False, False, True)):
            await asyncio.to_thread(transact, producer, topic, number, commits=commits)
        await asyncio.to_thread(producer.begin)
        await asyncio.to_thread(producer.send, topic, values_of("open"))
        committed, every = await both(mixed, topic)
        await asyncio.to_thread(producer.end, commits=True)
    closed, _ = await both(mixed, topic)

    decided = [f"{number} {at}" for number in (0, 2, 5) for at in "ab"]
    assert in_each(decided) == committed
    assert in_each([f"{each} {at}" for each in (*range(6), "open") for at in "ab"]) == every
    assert in_each([*decided, "open a", "open b"]) == closed
    await mixed.fleet.in_sync(topic)
    assert {kind == "kafka"} == bumps(mixed.replica(OURS, f"{topic}-0"))


def bumps(directory: Path) -> set[bool]:
    """Whether the markers have another epoch than the records that they end: transaction.version 2."""
    found, epoch = set(), -1
    for _, header in batches((directory / SEGMENT).read_bytes()):
        if header.is_control:
            found.add(header.producer_epoch == epoch + 1)
        epoch = header.producer_epoch
    return found


def in_each(values: list[str]) -> dict[int, list[str]]:
    return dict.fromkeys(range(len(ALL)), values)


def values_of(what: object) -> list[tuple[int, str]]:
    return [(index, f"{what} {at}") for at in "ab" for index in range(len(ALL))]


def transact(producer: Transactional, topic: str, what: object, *, commits: bool) -> None:
    """A transaction of two batches in each partition."""
    producer.begin()
    values = values_of(what)
    producer.send(topic, values[: len(ALL)])
    producer.send(topic, values[len(ALL) :])
    producer.end(commits=commits)


async def both(mixed: Mixed, topic: str) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """What is read with read_committed, and with read_uncommitted."""
    committed = await asyncio.to_thread(read, mixed.servers, topic, len(ALL), committed=True)
    return committed, await asyncio.to_thread(read, mixed.servers, topic, len(ALL), committed=False)


def open_transactions(servers: str, topic: str, *partitions: int) -> tuple[Transactional, Transactional]:
    """Two transactions of librdkafka with a record in each partition: one that is to be committed, one that is not."""
    kept, dropped = (Librdkafkas(servers, f"{topic}-{what}") for what in ("kept", "dropped"))
    for producer, what in ((kept, "kept"), (dropped, "dropped")):
        producer.begin()
        producer.send(topic, [(index, what) for index in partitions])
    return kept, dropped


async def test_open_transactions_outlive_a_kill_of_their_leader(mixed: Mixed) -> None:
    """Of partition 0 ours has the only replica, and reads its log anew; partition 1 gets another leader."""
    await mixed.create("struck", OURS, replicas=(OURS,))
    await mixed.create("moved", OURS)
    struck = await asyncio.to_thread(open_transactions, mixed.servers, "struck", 0)
    moved = await asyncio.to_thread(open_transactions, mixed.servers, "moved", 0)
    await mixed.kill(OURS)
    await ended(mixed, "moved", *moved)
    await mixed.start(OURS)
    await ended(mixed, "struck", *struck)
    await mixed.fleet.in_sync("moved")

    for topic in ("moved", "struck"):
        assert {0: ["kept", "kept, too"]} == await asyncio.to_thread(read, mixed.servers, topic, 1, committed=True)


async def ended(mixed: Mixed, topic: str, kept: Transactional, dropped: Transactional) -> None:
    """One record more of each, of which nothing is read yet; then the ends."""
    await asyncio.to_thread(kept.send, topic, [(0, "kept, too")])
    await asyncio.to_thread(dropped.send, topic, [(0, "dropped, too")])
    assert {0: []} == await asyncio.to_thread(read, mixed.servers, topic, 1, committed=True)
    await asyncio.to_thread(dropped.end, commits=False)
    await asyncio.to_thread(kept.end, commits=True)


async def test_kafkas_tools_see_and_end_a_transaction_at_our_broker(mixed: Mixed) -> None:
    """`abort` writes a marker past the coordinator, as for a transaction that hangs."""
    run, at = mixed.fleet.run, ("--bootstrap-server", mixed.own[OURS].kafka_address)
    await mixed.create("seen", OURS, 102)
    kept, dropped = await asyncio.to_thread(open_transactions, mixed.servers, "seen", 0, 1)
    described = await run(TRANSACTIONS_TOOL, *at, "describe-producers", "--topic", "seen", "--partition", 0)
    hanging = await run(TRANSACTIONS_TOOL, *at, "find-hanging", "--broker-id", OURS)
    listed = await run(TRANSACTIONS_TOOL, *at, "list")
    await run(TRANSACTIONS_TOOL, *at, "abort", "--topic", "seen", "--partition", 0, "--start-offset", 1)
    await asyncio.to_thread(kept.end, commits=True)
    seen = await asyncio.to_thread(read, mixed.servers, "seen", 1, committed=True)
    await asyncio.to_thread(dropped.end, commits=True)
    after = await asyncio.to_thread(read, mixed.servers, "seen", 2, committed=True)

    assert ["0", "1"] == sorted(line.split()[-1] for line in described.splitlines()[1:])
    assert [] == [line for line in hanging.splitlines() if "seen" in line]
    assert [2] == [sum(f"seen-{each}" in listed for each in ("kept", "dropped"))]
    assert {0: ["kept"]} == seen
    assert {0: ["kept"], 1: ["kept", "dropped"]} == after


def files_of(directory: Path) -> str:
    """What Kafka's own tool shall read of a partition."""
    kinds = {".log", ".txnindex", ".snapshot"}
    return ",".join(str(path) for path in sorted(directory.iterdir()) if path.suffix in kinds)


async def test_a_broker_of_kafkas_goes_on_with_our_directories_and_we_with_its(mixed: Mixed) -> None:
    """The last story: 101 is another program for a while, as the same broker, from a clean stop to a clean stop.

    It ends two transactions that were begun at ours, and ours two that were begun there.
    """
    (disk,) = mixed.own.disks(OURS)
    await mixed.create("taken", OURS, replicas=(OURS,))
    kept, dropped = await asyncio.to_thread(open_transactions, mixed.servers, "taken", 0)
    await asyncio.to_thread(dropped.end, commits=False)
    await asyncio.to_thread(dropped.begin)
    await asyncio.to_thread(dropped.send, "taken", [(0, "dropped, too")])
    await mixed.own.stop(OURS)
    where = ("--deep-iteration", "--files", files_of(disk / "taken-0"))
    files = await mixed.fleet.run(TOOLS + "DumpLogSegments", *where)
    await taken_over(mixed, disk, kept, dropped)
    await asyncio.to_thread(kept.end, commits=True)
    await asyncio.to_thread(dropped.end, commits=False)
    read_at_ours = await asyncio.to_thread(read, mixed.servers, "taken", 1, committed=True)

    assert (1, 0) == (files.count("endTxnMarker: ABORT"), files.count("isvalid: false"))
    assert re.search(r"^version: 0 producerId: \d+ firstOffset: 1 lastOffset: 2 lastStableOffset: 0$", files, re.M)
    assert ["0", "3"] == sorted(re.findall(r"currentTxnFirstOffset: OptionalLong\[(\d)\]", files))
    assert {0: ["kept", "kept by theirs"]} == read_at_ours


async def taken_over(mixed: Mixed, disk: Path, kept: Transactional, dropped: Transactional) -> None:
    """A broker of Kafka's on our directory: it ends both transactions, and gets another one of each producer."""
    fleet = mixed.fleet
    (port,) = free_ports(1)
    known = {"controller.quorum.voters": fleet.plane.plan.gateways[0].settings["controller.quorum.voters"]}
    with broker_of(fleet.plane.plan, OURS, port, settings={**known, "log.dirs": disk}) as theirs:
        theirs.start()
        await asyncio.to_thread(theirs.wait_ready)
        await fleet.in_sync("codecs")
        await asyncio.to_thread(write_by_every_codec, mixed.servers, "codecs", 2)
        for producer, commits in ((kept, True), (dropped, False)):
            await asyncio.to_thread(producer.end, commits=commits)
            await asyncio.to_thread(producer.begin)
            what = "kept by theirs" if commits else "dropped by theirs"
            await asyncio.to_thread(producer.send, "taken", [(0, what)])
        await fleet.in_sync("codecs")
        await asyncio.to_thread(theirs.stop)
        said = theirs.says.read_text()
    await mixed.own.start(OURS)
    await fleet.in_sync("codecs")
    async with Writer(mixed.servers, "codecs", partitions=2, in_flight=1) as writer:
        await writer.more(10)
    ends = {index: max(offset for offset, _ in told) + 1 for index, told in writer.acknowledged.items()}
    seen = await asyncio.to_thread(consumed, mixed.servers, "codecs", ends)

    assert [] == [line for line in said.splitlines() if " ERROR " in line or "orrupt" in line]
    assert {0: [], 1: []} == {index: lost(told, seen[index]) for index, told in writer.acknowledged.items()}
    assert all(2 * len(CODECS) * PER_CODEC < end for end in ends.values())
    assert "cut off" not in mixed.own.log(OURS).rpartition("starting")[2]
