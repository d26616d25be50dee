"""The pipeline's reader against controllers that speak Kafka's wire and answer by a script; without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import pytest

from deploy.local.ports import free_ports
from kraft import Message
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from quorate.errors import ErrorCode
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.network.listening import ConnectedClient, Unanswerable
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.kafka_nodes import KafkaNodes
from quorate.pipeline.live import AnotherCluster, QuorumReader
from quorate.pipeline.nodes import Unanswered
from quorate.protocol import Request
from quorate.wire.batch import batches
from tests.network.test_observer import CLUSTER_ID, LOOPBACK, Partition, Script, answer, batch, listening

T = TypeVar("T")

PATIENT_S = 60.0
BRIEF_S = 0.5


async def asked(
    question: Callable[[QuorumReader], T],
    *scripts: Script,
    retry_s: float = PATIENT_S,
    cluster_id: str | None = None,
    instead: Callable[[list[Endpoint]], list[Message]] | None = None,
    known: int = 1,
) -> T:
    """What a reader answers that begins at the first controllers; `instead` are the first one's answers, by address."""

    def ask(bootstrap: list[Endpoint]) -> T:
        with closing(KafkaNodes(bootstrap, ClientConfig())) as nodes:
            return question(QuorumReader(nodes, cluster_id=cluster_id, retry_s=retry_s))

    async with listening(*scripts) as endpoints:
        if instead is not None:
            scripts[0].answers = [*instead(endpoints)]
        return await asyncio.to_thread(ask, endpoints[:known])


async def test_only_what_is_committed_is_returned_and_no_replica_is_registered() -> None:
    leader = Script(answer(batch(0, 2), batch(2), batch(3), end=3))
    cluster_id, found = await asked(lambda quorum: (quorum.cluster_id, quorum.records(0)), leader)

    assert (CLUSTER_ID, 3) == (cluster_id, found.high_watermark)
    assert [0, 2] == [header.base_offset for _, header in batches(found.records)]
    assert {-1} == {fetch.replica_state.replica_id for fetch in leader.fetches}


@pytest.mark.parametrize("left", [30, 70])
async def test_a_batch_that_the_leader_has_cut_is_left_for_the_next_fetch(left: int) -> None:
    leader = Script(answer(batch(0, 2), batch(2), batch(3, 4)[:left], end=7), answer(batch(3, 4), end=7))
    found = await asked(lambda quorum: (quorum.records(0).records, quorum.records(3).records), leader)

    assert (batch(0, 2) + batch(2), batch(3, 4)) == found


async def test_it_asks_the_leader_that_another_controller_names() -> None:
    def not_mine(endpoints: list[Endpoint]) -> list[Message]:
        return [
            answer(
                error=error,
                current_leader=Partition.LeaderIdAndEpoch(2, 7),
                endpoints=(FetchResponse.NodeEndpoint(2, *endpoints[1]),),
            )
            for error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ]

    first, leader = Script(), Script(answer(batch(0, 5, epoch=7), end=5))
    found = await asked(lambda quorum: quorum.batch_end(4), first, leader, instead=not_mine)

    assert OffsetAndEpoch(offset=5, epoch=7) == found
    assert [7] == [fetch.topics[0].partitions[0].current_leader_epoch for fetch in leader.fetches]


async def test_a_leader_that_does_not_know_yet_what_is_committed_is_asked_again() -> None:
    leader = Script(answer(end=-1), answer(end=-1), answer(end=9))

    assert 9 == await asked(lambda quorum: quorum.high_watermark(), leader)
    assert 3 == len(leader.fetches)


async def test_a_checkpoint_comes_in_chunks() -> None:
    data = bytes(range(256))

    assert data == await asked(
        lambda quorum: quorum.snapshot(OffsetAndEpoch(offset=9, epoch=1)), Script(answer(end=9), checkpoint=data)
    )


class Ending(Script):
    """A controller that gives the first piece of its checkpoint and fails at the next one."""

    async def __call__(self, request: Request, client: ConnectedClient) -> Message | None:
        if isinstance(request.message, FetchSnapshotRequest) and request.message.topics[0].partitions[0].position:
            raise Unanswerable("it ends")
        return await super().__call__(request, client)


async def test_a_checkpoint_is_of_one_node() -> None:
    """Each node writes its own checkpoint: the bytes of two need not be the same."""
    wanted = OffsetAndEpoch(offset=9, epoch=1)
    ending, whole = Ending(answer(end=9), checkpoint=b"A" * 120), Script(answer(end=9), checkpoint=b"B" * 120)

    assert b"B" * 120 == await asked(lambda quorum: quorum.snapshot(wanted), ending, whole, known=2)


class Unwritable(Script):
    """A leader of epoch 7 that cannot write a refusal of FetchSnapshot, as in Kafka; it has the snapshot `latest`."""

    def __init__(self, latest: OffsetAndEpoch, checkpoint: bytes) -> None:
        super().__init__(self.fetched, checkpoint=checkpoint)
        self.latest = latest

    def fetched(self, asked: FetchRequest) -> Message:
        if asked.topics[0].partitions[0].current_leader_epoch != 7:
            return answer(error=ErrorCode.FENCED_LEADER_EPOCH, current_leader=Partition.LeaderIdAndEpoch(1, 7))
        return answer(end=9, snapshot_id=Partition.SnapshotId(self.latest.offset, self.latest.epoch))

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        if isinstance(request.message, FetchSnapshotRequest):
            (asked,) = request.message.topics[0].partitions
            wanted = OffsetAndEpoch(offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch)
            if asked.current_leader_epoch != 7 or wanted != self.latest:
                return FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return await super().__call__(request, client)


async def test_a_refusal_that_kafka_cannot_write_is_understood_by_a_fetch() -> None:
    latest, data = OffsetAndEpoch(offset=9, epoch=7), bytes(range(256))
    leader = Unwritable(latest, data)

    assert data == await asked(lambda quorum: quorum.snapshot(latest), leader, cluster_id=CLUSTER_ID)
    assert None is await asked(lambda quorum: quorum.snapshot(OffsetAndEpoch(offset=5, epoch=7)), leader)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (answer(whole=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "refuses to be read from: CLUSTER_AUTHORIZATION_FAILED"),
        (answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), r"NOT_LEADER_OR_FOLLOWER; \d+ attempts in 0.5 s"),
        (FetchResponse(), r"says nothing of __cluster_metadata-0; \d+ attempts in 0.5 s"),
    ],
    ids=["not-allowed", "no-leader", "no-partition"],
)
async def test_the_error_names_the_controller_and_the_reason(said: FetchResponse, why: str) -> None:
    with pytest.raises(Unanswered, match=rf"^endpoint 127.0.0.1:\d+:? {why}$"):
        await asked(lambda quorum: quorum.records(0), Script(said), retry_s=BRIEF_S)


async def test_a_controller_that_is_not_there_and_one_of_another_cluster_are_named() -> None:
    (port,) = free_ports(1)

    def nobody() -> None:
        with closing(KafkaNodes([(LOOPBACK, port)], ClientConfig())) as nodes:
            QuorumReader(nodes, retry_s=BRIEF_S)

    with pytest.raises(Unanswered, match=rf"^endpoint 127.0.0.1:{port}: .*; \d+ attempts in 0.5 s$"):
        await asyncio.to_thread(nobody)
    with pytest.raises(AnotherCluster, match=rf"is of cluster {CLUSTER_ID}, not of other$"):
        await asked(
            lambda quorum: quorum.records(0),
            Script(answer(whole=ErrorCode.INCONSISTENT_CLUSTER_ID)),
            cluster_id="other",
        )
