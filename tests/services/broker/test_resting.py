"""Partitions without news rest in a fetch session, at the leader and at the follower: what both know stays the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from msgspec.structs import replace

from kraft import Message
from kraft.api.delete_records import DeleteRecordsRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.produce import ProduceRequest, ProduceResponse
from quorate.authorizer import CLUSTER_NAME
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.network.client import Connection, Timeouts
from quorate.nouns import NodeId
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from quorate.replication import Progress
from quorate.runtime.telemetry.tracing import OFF
from services.broker.awaited import Awaited
from services.broker.callers import Caller
from services.broker.cluster import Cluster
from services.broker.deletion import Deletion
from services.broker.fetch import Fetch
from services.broker.fetcher import LeaderFetchers
from services.broker.peers import Peers
from services.broker.produce import Produce
from services.broker.table import Hosted, Key
from services.broker.tracing import ProduceTraces
from services.broker.transaction_coordinators import TransactionCoordinators
from services.broker.verification import Verifier
from tests.e2e.calls import eventually
from tests.partition_log.batches import produced
from tests.services.broker import test_partitions
from tests.services.broker.calling import LISTENER, caller, user_with
from tests.services.broker.test_directories import IDS, formatted
from tests.services.broker.test_partitions import (
    BROKERS,
    DIRECTORIES,
    LEVELS,
    ME,
    ORDERS,
    OTHER,
    TOPIC,
    Scene,
    partition,
    running,
)
from tests.services.counted_calls import calls_in_a_turn

disks = test_partitions.disks
MANY = 300
VERSION = 17
WAIT_MS = 50
KEY = Key(TOPIC, 0)
Asked = FetchRequest.FetchTopic.FetchPartition


class Leader:
    """A leader of partitions, asked by hand; `at` is where its follower has them, by index."""

    def __init__(self, scene: Scene, count: int) -> None:
        self.scene, self.replicas = scene, scene.replicas
        self.cluster = Cluster(ME, "ours", LISTENER, lambda: scene.replica.state, self.replicas.table)
        traces = ProduceTraces(OFF)
        self.fetch = Fetch(self.replicas, self.cluster, traces)
        coordinators = TransactionCoordinators(no_coordinator, Peers())
        self.produce = Produce(self.replicas, self.cluster, traces, Verifier(self.replicas, self.cluster, coordinators))
        self.deletion = Deletion(self.replicas, self.cluster)
        self.session = (0, 0)
        self.count = count
        self.told: dict[int, tuple[int, int]] = {}

    def __getitem__(self, index: int) -> Hosted:
        hosted = self.replicas.table.named(TopicPartition("orders", index))
        assert hosted is not None
        return hosted

    def progress(self, index: int) -> Progress:
        leading = self[index].leading
        assert leading is not None
        return leading.replicas[OTHER]

    async def append(self, index: int) -> None:
        data = ProduceRequest.TopicProduceData
        parts = (data.PartitionProduceData(index, produced(count=1, timestamp_ms=-1)),)
        request = ProduceRequest(None, 1, 1_000, (data(name="orders", partition_data=parts),))
        answer = await self.produce.answer(request, 12, caller())
        assert isinstance(answer, ProduceResponse)
        assert not answer.responses[0].partition_responses[0].error_code, answer

    async def go_on(
        self,
        *asked: tuple[int, int],
        wait_ms: int = 0,
        who: Caller | None = None,
        topics: tuple[FetchRequest.FetchTopic, ...] = (),
    ) -> dict[int, FetchResponse.FetchableTopicResponse.PartitionData]:
        """The next fetch of the session, which says where these partitions are now; what is answered, by index."""
        partitions = tuple(Asked(index, 0, offset, 0, partition_max_bytes=1 << 20) for index, offset in asked)
        topics = (FetchRequest.FetchTopic(topic_id=TOPIC, partitions=partitions),) if partitions else topics
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(OTHER, 5),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=10 << 20,
            session_id=self.session[0],
            session_epoch=self.session[1],
            topics=topics,
        )
        answer = await self.fetch.answer(request, VERSION, who or caller())
        assert not answer.error_code, answer
        self.session = answer.session_id, self.session[1] + 1
        found = {each.partition_index: each for topic in answer.responses for each in topic.partitions}
        for index, each in found.items():
            self.told[index] = each.high_watermark, each.log_start_offset
        return found

    async def at_rest(self) -> None:
        """The follower has all, and has had that answer."""
        await self.go_on(*((index, self[index].log.leo) for index in range(self.count)))
        await self.go_on()
        assert {} == await self.go_on(), "there are no news"


async def no_coordinator(_: str) -> NoReturn:
    raise AssertionError("nobody writes in a transaction")


@asynccontextmanager
async def leading(disks: list[Path], count: int) -> AsyncIterator[Leader]:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, *map(partition, range(count)))
        await scene.applied(lambda: len(scene.names) == count)
        yield Leader(scene, count)


async def test_a_fetch_looks_at_none_that_rests(disks: list[Path]) -> None:
    async with leading(disks, MANY) as leader:
        await leader.at_rest()
        with calls_in_a_turn() as calls:
            assert {} == await leader.go_on()

        assert calls[0] < MANY
        assert MANY == sum(leader.progress(index).leo == 0 for index in range(MANY))


async def test_what_happens_to_one_that_rests_is_told_and_its_follower_was_caught_up_until_then(
    disks: list[Path],
) -> None:
    async with leading(disks, 3) as leader:
        await leader.at_rest()
        await asyncio.sleep(0.002)
        began_ms = leader.replicas.now_ms
        waiting = asyncio.ensure_future(leader.go_on(wait_ms=60_000))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await leader.append(1)
        found = await waiting

        assert [1] == [*found]
        assert found[1].records
        last_ms = leader.progress(1).last_caught_up_at_ms
        assert last_ms is not None
        assert began_ms <= last_ms <= leader.replicas.now_ms

        # Its high watermark is news once the follower has said that it has the record.
        assert [(1, 0)] == [(index, len(each.records or b"")) for index, each in (await leader.go_on((1, 1))).items()]
        assert (1, 0) == leader.told[1]
        await leader.append(1)
        assert [1] == [*(await leader.go_on())]


async def test_a_follower_that_has_lost_its_end_is_not_caught_up_by_what_it_said_before(disks: list[Path]) -> None:
    """It was killed, and a power cut took the last record; its session of before is still there."""
    async with leading(disks, 1) as leader:
        await leader.append(0)
        await leader.at_rest()
        await asyncio.sleep(0.002)
        await leader.go_on()
        leader.session = (0, 0)
        await leader.go_on((0, 0))
        caught_up_ms = leader.progress(0).last_caught_up_at_ms
        await leader.append(0)

        assert (0, caught_up_ms) == (leader.progress(0).leo, leader.progress(0).last_caught_up_at_ms)


async def test_what_ends_in_an_earlier_epoch_rests_too(disks: list[Path]) -> None:
    """So it is after each failover, until somebody writes."""
    async with leading(disks, 1) as leader:
        await leader.append(0)
        await leader.at_rest()
        for epoch, to in enumerate((OTHER, ME), 1):
            leader.scene.log.append(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=to))
            await leader.scene.applied(lambda epoch=epoch: leader[0].partition.leader_epoch == epoch)
        assert leader[0].leading is not None
        leader.session = (0, 0)
        topics = FetchRequest.FetchTopic(topic_id=TOPIC, partitions=(Asked(0, 2, 1, 0, partition_max_bytes=1 << 20),))
        await leader.go_on(topics=(topics,))
        await leader.go_on()
        before_ms = leader.progress(0).last_fetch_at_ms
        await asyncio.sleep(0.002)
        await leader.go_on()

        assert before_ms == leader.progress(0).last_fetch_at_ms, "it is looked at"
        await leader.append(0)
        assert leader.progress(0).last_fetch_at_ms != before_ms


async def test_a_log_start_that_moves_is_told(disks: list[Path]) -> None:
    async with leading(disks, 2) as leader:
        await leader.append(0)
        await leader.at_rest()
        of = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest((of("orders", (of.DeleteRecordsPartition(0, 1),)),), 1)
        await leader.deletion.answer(request, caller())

        assert [0] == [*(await leader.go_on())]
        assert (1, 1) == leader.told[0]


async def test_a_follower_that_may_no_more_and_a_partition_that_goes_are_refused(disks: list[Path]) -> None:
    async with leading(disks, 2) as leader:
        await leader.at_rest()
        found = await leader.go_on(who=user_with((AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)))
        assert [0, 1] == sorted(found)
        assert all(each.error_code for each in found.values())

        await leader.at_rest()
        change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=OTHER)
        leader.scene.log.append(change)
        await leader.scene.applied(lambda: leader[0].leading is None)
        found = await leader.go_on(wait_ms=60_000)

        assert [0] == [*found]
        assert found[0].error_code


async def test_a_replica_outside_the_isr_does_not_rest(disks: list[Path]) -> None:
    """Each of its fetches may be the one after which it is proposed: here it was fenced before."""
    async with leading(disks, 1) as leader:
        await leader.at_rest()
        fenced, unfenced = (
            BrokerRegistrationChangeRecord(broker_id=OTHER, broker_epoch=5, fenced=to) for to in (1, -1)
        )
        leader.scene.log.append(fenced, PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(ME,)))
        await leader.scene.applied(lambda: leader[0].partition.partition_epoch == 1)
        await leader.at_rest()
        leading_role = leader[0].leading
        assert leading_role is not None
        assert leading_role.proposal is None
        leader.scene.log.append(unfenced)
        await leader.scene.applied(lambda: not leader.replicas.brokers[OTHER].is_fenced)
        await leader.go_on()

        assert leading_role.proposal is not None


async def test_a_fetch_that_waits_makes_room_for_one_of_what_is_led_now(disks: list[Path]) -> None:
    """And while the follower has not heard of it, its fetches are short: as of no other follower."""
    async with leading(disks, 1) as leader:
        await leader.at_rest()
        waiting = asyncio.ensure_future(leader.go_on(wait_ms=60_000))
        await asyncio.sleep(0.01)
        leader.scene.log.append(partition(1))

        assert {} == await waiting
        assert {} == await leader.go_on(wait_ms=60_000), "it has not heard of the other one yet"
        assert [1] == [*(await leader.go_on((1, 0)))]
        waiting = asyncio.ensure_future(leader.go_on(wait_ms=60_000))
        await asyncio.sleep(0.1)
        assert not waiting.done(), "it has"
        await leader.append(1)
        assert [1] == [*(await waiting)]


async def test_a_follower_that_does_not_come_fetches_as_ever_after_a_while() -> None:
    awaited = Awaited(end=lambda _: None)
    awaited.expect(KEY, [ME, OTHER], now_ms=1_000)
    awaited.expect(Key(TOPIC, 1), [OTHER], now_ms=1_500)

    assert [20, 20] == [awaited.wait_ms_max(each, now_ms=2_999) for each in (ME, OTHER)]
    assert [None, 20] == [awaited.wait_ms_max(each, now_ms=3_000) for each in (ME, OTHER)]
    assert [None, None] == [awaited.wait_ms_max(each, now_ms=3_500) for each in (ME, OTHER)]


class Direct:
    """A connection to a leader in this process. It counts the partitions that requests and answers have."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self.is_open = True
        self.fetches = 0
        self.asked = 0
        self.waits_ms: list[int] = []

    async def ask_for(self, _: type[Message], request: FetchRequest) -> FetchResponse:
        if not self.is_open:
            raise ConnectionResetError("closed")
        self.fetches += 1
        self.waits_ms.append(request.max_wait_ms)
        self.asked += sum(len(topic.partitions) for topic in request.topics)
        state = FetchRequest.ReplicaState(OTHER, 5)
        return await self._leader.fetch.answer(
            replace(request, replica_state=state, max_wait_ms=WAIT_MS), VERSION, caller()
        )

    def abort(self) -> None:
        self.is_open = False


@asynccontextmanager
async def following(
    leader: Leader, disks: list[Path], gate: asyncio.Event | None = None
) -> AsyncIterator[tuple[Scene, list[Direct]]]:
    """A broker whose partitions follow the leader's, and its connections, which are made once the gate is open."""
    connections: list[Direct] = []

    async def connect(_: NodeId, __: Timeouts) -> Connection:
        if gate is not None:
            await gate.wait()
        connections.append(Direct(leader))
        return cast("Connection", connections[-1])

    async with running(disks) as scene, asyncio.TaskGroup() as tasks:
        scene.replicas.fetchers = fetchers = LeaderFetchers(
            scene.replicas, tasks, broker_epoch=lambda: 5, connect_to=connect, cluster_id="ours"
        )
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, *(partition(index, leader=OTHER) for index in range(leader.count)))
        await scene.applied(lambda: len(scene.names) == leader.count)
        yield scene, connections
        for hosted in scene.replicas.table:
            fetchers.stop(hosted)


def bounds(scene: Scene) -> dict[str, tuple[int, int, int]]:
    """By partition: log start, high watermark, log end."""
    return {
        str(each.name): (each.log.start, each.partition.local.high_watermark, each.log.leo)
        for each in scene.replicas.table
    }


@pytest.fixture
def others_disks(tmp_path: Path) -> list[Path]:
    (tmp_path / "other").mkdir()
    return [formatted(tmp_path / "other" / text, each, node_id=ME) for text, each in zip(IDS, DIRECTORIES, strict=True)]


async def test_a_partition_that_goes_while_its_leader_is_sought_is_not_asked_for(
    disks: list[Path], others_disks: list[Path]
) -> None:
    """The leader would refuse it at once, each time, and nobody would know it."""
    gate = asyncio.Event()
    async with leading(disks, 2) as leader, following(leader, others_disks, gate) as (scene, connections):
        await asyncio.sleep(0.01)
        for each, to in ((leader.scene, OTHER), (scene, ME)):
            each.log.append(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=to))
            await each.applied(lambda each=each: 1 == max(part.partition.leader_epoch for part in each.replicas.table))
        gate.set()

        async def fetches() -> int:
            return connections[-1].fetches if connections else 0

        await eventually(fetches, lambda count: count > 4)
        assert 1 == connections[-1].asked


async def test_a_fetch_waits_no_longer_than_until_one_that_was_refused_is_asked_for_again(
    disks: list[Path], others_disks: list[Path]
) -> None:
    """Its leader has not heard of it yet: the follower looks again soon, and has its record."""
    async with leading(disks, 1) as leader, following(leader, others_disks) as (scene, connections):

        async def fetches() -> int:
            return connections[-1].fetches if connections else 0

        await eventually(fetches, lambda count: count > 3)
        connections[-1].waits_ms.clear()
        scene.log.append(partition(1, leader=OTHER))
        await scene.applied(lambda: len(scene.names) == 2)

        async def waits_ms() -> list[int]:
            return connections[-1].waits_ms

        await eventually(waits_ms, lambda waits: 20 >= min(waits, default=500))
        leader.scene.log.append(partition(1))
        await leader.scene.applied(lambda: len(leader.scene.names) == 2)
        await leader.append(1)

        async def end() -> int:
            hosted = scene.replicas.table.named(TopicPartition("orders", 1))
            assert hosted is not None
            return hosted.log.leo

        await eventually(end, lambda leo: leo == 1)


async def test_a_follower_has_what_its_leader_has_whatever_rests(disks: list[Path], others_disks: list[Path]) -> None:
    """Appends, deletions, connections that end, leaders that forget the session, followers that stop and come back."""
    drawn = random.Random(7)
    async with leading(disks, 8) as leader, following(leader, others_disks) as (scene, connections):
        for _ in range(60):
            index = drawn.randrange(leader.count)
            match drawn.choice(["append"] * 6 + ["delete", "reset", "forget", "restart", "trim"]):
                case "append":
                    await leader.append(index)
                case "delete":
                    at = leader[index].partition.local.high_watermark
                    leader[index].log.raise_start(at)
                    leader.replicas.trimmed(leader[index])
                case "reset" if connections:
                    connections[-1].is_open = False
                case "forget":
                    leader.fetch = Fetch(leader.replicas, leader.cluster, ProduceTraces(OFF))
                case "restart":
                    hosted = scene.replicas.table.named(TopicPartition("orders", index))
                    assert hosted is not None
                    scene.replicas.fetchers.start(hosted, OTHER)
                case "trim":
                    hosted = scene.replicas.table.named(TopicPartition("orders", index))
                    assert hosted is not None
                    hosted.log.raise_start(hosted.partition.local.high_watermark)
                    scene.replicas.trimmed(hosted)
            await asyncio.sleep(drawn.choice([0, 0, 0.01, 0.06]))

        def differ() -> dict[str, Any]:
            here, there = bounds(scene), bounds(leader.scene)
            return {name: (each, there[name]) for name, each in here.items() if each[1:] != there[name][1:]}

        async def differences() -> dict[str, Any]:
            return differ()

        await eventually(differences, lambda found: not found)
        before = connections[-1].fetches, connections[-1].asked

        async def fetches() -> int:
            return connections[-1].fetches

        await eventually(fetches, lambda count: count > before[0] + 4)
        assert connections[-1].asked - before[1] <= leader.count, "what does not change is not asked for again"
