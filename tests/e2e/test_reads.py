"""A controller whose quorum node has been replaced as leader, unheard, tells nobody what was so before (P-02)."""

from __future__ import annotations

import signal

import pytest

from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from quorate.errors import ApiError
from quorate.runtime.statuses import is_retriable
from tests.e2e.cluster import VOTERS, Cluster, attempt, eventually, spoken

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

READS = 3


async def test_a_leader_replaced_unheard_answers_no_read(cluster: Cluster) -> None:
    """Without no-op records nothing is pending that would keep its controller from answering at once."""
    for node_id in VOTERS:
        controller = cluster.controller(node_id)
        controller.settings["metadata.max.idle.interval.ms"] = "0"
        await cluster.kill(controller, signal.SIGTERM)
        await cluster.restart(controller)
    old = await cluster.active()
    await cluster.create("before", at=old)
    quorum_node = cluster.quorum(old)
    async with cluster.stopped(quorum_node):
        other = next(node_id for node_id in VOTERS if node_id != old)
        # What is handed to the old one before the other has heard of the new one is not answered; so it is tried anew.
        await eventually(lambda: attempt(cluster.create("after", at=other, deadline_ms=2_000)))
        told = [await read(cluster, old) for _ in range(READS)]

        assert [] == [names for names in told if names and "after" not in names]

    assert {"before", "after"} <= (await cluster.topics(at=old)).keys()


async def read(cluster: Cluster, door: int) -> set[str]:
    """What one call is told; nothing, if it is refused for now."""
    try:
        told = await spoken(
            cluster.controller_stub(door).DescribeTopicPartitions, DescribeTopicPartitionsRequest(), deadline_ms=1_000
        )
    except ApiError as refusal:
        assert is_retriable(refusal), refusal
        return set()
    return {topic.name for topic in told.response.topics}
