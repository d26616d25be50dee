"""A replica's stream to the leader breaks, and another is open already: the leader never takes one for the other."""

from __future__ import annotations

import asyncio

import pytest

from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, NodeId, uuid_text
from tests.e2e.calls import WITHIN_S
from tests.e2e.cluster import PATIENT, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

REPLICA = 999
"""An observer that nobody knows of."""
HELD_MS = 500
ROUNDS = 5
"""A question is held until there is news, twice a second: in most of them it is held when the old stream ends."""


class Stream:
    """One of the replica's streams to the leader: asks for what comes after the last commit."""

    def __init__(self, cluster: Cluster, leader: NodeId) -> None:
        self._cluster = cluster
        self._leader = leader
        self._call = cluster.quorum_stub(leader).FetchStream()

    async def ask(self, *, beyond: int = 0) -> None:
        """The leader may hold the question for a while; one from an offset `beyond` its log is answered at once."""
        view = await self._cluster.find(self._leader)
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=METADATA_PARTITION,
            current_leader_epoch=view.leader_epoch,
            fetch_offset=view.high_watermark + beyond,
            last_fetched_epoch=view.leader_epoch,
            high_watermark=view.high_watermark,
        )
        topic = FetchRequest.FetchTopic(topic_id=uuid_text(METADATA_TOPIC_ID), partitions=[partition])
        replica = FetchRequest.ReplicaState(replica_id=REPLICA)
        await self._call.write(
            FetchRequest(replica_state=replica, max_wait_ms=HELD_MS, max_bytes=1 << 20, topics=[topic])
        )

    async def answer(self) -> int:
        """The error code in it."""
        answer = await asyncio.wait_for(self._call.read(), WITHIN_S)
        assert isinstance(answer, FetchResponse), answer
        return answer.responses[0].partitions[0].error_code

    def end(self) -> None:
        """As when its connection is found dead."""
        self._call.cancel()


async def test_an_old_stream_that_ends_does_not_silence_the_one_after_it(cluster: Cluster) -> None:
    """A connection may be found dead long after the replica has opened another, as after a partition."""
    leader = await cluster.active()
    old = Stream(cluster, leader)
    for _ in range(ROUNDS):
        await old.ask()

        assert ErrorCode.NONE == await old.answer()

        young = Stream(cluster, leader)
        await young.ask()
        await cluster.find(leader)  # by then the question is there
        old.end()

        assert ErrorCode.NONE == await young.answer()

        old = young
    old.end()


async def test_a_late_question_of_an_old_stream_does_not_silence_the_one_after_it(cluster: Cluster) -> None:
    """A process that was killed may have left a question on its connection, which comes after those of the next one."""
    leader = await cluster.active()
    for _ in range(ROUNDS):
        old, young = Stream(cluster, leader), Stream(cluster, leader)
        await old.ask(beyond=1_000)

        assert ErrorCode.NONE == await old.answer()

        await young.ask()
        await cluster.find(leader)  # by then the question is there
        await old.ask(beyond=1_000)

        assert ErrorCode.NONE == await old.answer()

        old.end()

        assert ErrorCode.NONE == await young.answer()

        young.end()
