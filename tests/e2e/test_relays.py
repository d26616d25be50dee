"""An observer reads the log from a follower: all that is committed reaches it, and the leader never hears of it."""

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
            "observer.fetch.from.any": "true",
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

    described = await cluster.describe_quorum(leader)
    listed = {replica.replica_id for replica in described.observers}
    assert cluster.plan.observer.settings["node.id"] in {str(node_id) for node_id in listed}
    assert RELAYED not in listed

    await cluster.kill(cluster.quorum(leader))
    await cluster.create("under-the-next-leader", at=relay)
    assert "under-the-next-leader" in await eventually(seen, lambda names: "under-the-next-leader" in names)
    await cluster.kill(observer)
