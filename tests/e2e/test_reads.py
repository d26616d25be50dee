"""A controller whose quorum node has been replaced as leader, unheard, tells nobody what was so before (P-02)."""

from __future__ import annotations

import signal

import pytest

from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId
from tests.e2e.calls import attempt, call_once, eventually
from tests.e2e.cluster import VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

READS = 3


async def test_a_leader_replaced_unheard_answers_no_read(cluster: Cluster) -> None:
    """Without no-op records nothing is pending that would keep its controller from answering at once.

    The first read runs into its caller's deadline: its controller holds itself for active still, and waits for the
    stopped node to confirm it. One that held itself for a standby would refuse the read or pass it on, as this one may
    once the silence of its node has lasted.
    """
    for node_id in VOTERS:
        controller = cluster.controller(node_id)
        controller.settings["metadata.max.idle.interval.ms"] = "0"
        await cluster.kill(controller, signal.SIGTERM)
        await cluster.restart(controller)
    old = await cluster.active()
    await cluster.create("before", at=old)

    assert {"before"} == (await cluster.topics(at=old)).keys()

    async with cluster.stopped(cluster.quorum(old)):
        other = next(node_id for node_id in VOTERS if node_id != old)
        # Not one write is handed to the old one: it would wait there, and every read behind it.
        await eventually(lambda: leads_by(cluster, other), lambda leader_id: leader_id not in (None, old))
        await cluster.create("after", at=other)
        told = [await read(cluster, old) for _ in range(READS)]

        assert ErrorCode.REQUEST_TIMED_OUT is told[0]
        assert {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER} >= set(told[1:]), told

    assert {"before", "after"} <= (await cluster.topics(at=old)).keys()


async def leads_by(cluster: Cluster, door: NodeId) -> NodeId | None:
    """Who leads, as the controller knows it that the one at this door holds for active; None if that one is mute."""
    described = await attempt(cluster.describe_quorum(door, within_s=1))
    return None if described is None else described.leader_id


async def read(cluster: Cluster, door: NodeId) -> set[str] | ErrorCode:
    """The topics in the answer to one call, or its error."""
    try:
        told = await call_once(
            cluster.controller_stub(door).DescribeTopicPartitions, DescribeTopicPartitionsRequest(), deadline_ms=1_000
        )
    except ApiError as refusal:
        return refusal.code
    return {topic.name for topic in told.response.topics}
