"""An observer reads the log from a follower: all that is committed reaches it, and its reports reach the leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.local.ports import free_ports
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

RELAYED: NodeId = 202


async def test_an_observer_of_a_follower_sees_what_is_committed(cluster: Cluster) -> None:
    leader = await cluster.active()
    relay = next(node_id for node_id in VOTERS if node_id != leader)
    (port,) = free_ports(1)
    observer = replace(
        cluster.plan.observer,
        name=f"observer-{RELAYED}",
        port=port,
        settings={
            **cluster.plan.observer.settings,
            "node.id": str(RELAYED),
            "listeners": f"OBSERVER://127.0.0.1:{port}",
            "controller.quorum.bootstrap.servers": cluster.quorum(relay).address,
            "observer.database.url": "sqlite://",
        },
    )
    await cluster.running.spawn(observer)
    await cluster.running.ready([observer])
    stub = ObserverStub(cluster.channel(observer))

    async def seen() -> set[str]:
        answer = (await call_with_retries(stub.DescribeTopicPartitions, DescribeTopicPartitionsRequest())).response
        return {topic.name for topic in answer.topics}

    await cluster.create("through-a-relay", at=1)
    assert "through-a-relay" in await eventually(seen, lambda names: "through-a-relay" in names)

    async def behind() -> dict[NodeId, int]:
        """How many records each listed observer lacks, by the leader's account."""
        quorum = await cluster.describe_quorum(leader)
        return {each.replica_id: quorum.high_watermark - each.log_end_offset for each in quorum.observers}

    # Both observers, each at its own time: they report once a second, and every half a second there is a record more.
    # The plan's has all nodes as its servers, and the leader among them.
    for node_id in (int(cluster.plan.observer.settings["node.id"]), RELAYED):
        await eventually(behind, lambda found, node_id=node_id: found.get(node_id, 1) <= 0)

    await cluster.kill(cluster.quorum(leader))
    await cluster.create("under-the-next-leader", at=relay)
    assert "under-the-next-leader" in await eventually(seen, lambda names: "under-the-next-leader" in names)
    await cluster.kill(observer)
