"""Copies of an observer with the same settings, as a Deployment has them: each follows the log by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest
import pytest_asyncio

from deploy.local.ports import free_ports
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.errors import ErrorCode
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster, control_plane

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

MAX_AGE_MS = 1_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    settings = {"connection.max.age.ms": str(MAX_AGE_MS)}
    directory = tmp_path_factory.mktemp("cluster")
    async with control_plane(directory, quorum_settings=PATIENT, observer_settings=settings) as running:
        yield running


async def test_a_connection_ends_at_its_age_so_that_a_client_looks_for_new_copies(cluster: Cluster) -> None:
    """A channel that is left alone goes from connected to idle only when the other side has closed it."""
    async with grpc.aio.insecure_channel(cluster.plan.observer.address) as channel:
        await call_with_retries(ObserverStub(channel).DescribeTopicPartitions, DescribeTopicPartitionsRequest())

        async def state() -> grpc.ChannelConnectivity:
            return channel.get_state()

        await eventually(state, lambda found: found is grpc.ChannelConnectivity.IDLE)
        # And the next call connects again.
        await call_with_retries(ObserverStub(channel).DescribeTopicPartitions, DescribeTopicPartitionsRequest())


async def test_copies_with_one_node_id_are_listed_apart_and_both_follow(cluster: Cluster) -> None:
    """The leader holds a fetch for each: under one key, one copy's fetch would take the place of the other's."""
    first = cluster.plan.observer
    (port,) = free_ports(1)
    listens = first.settings["listeners"].rpartition(":")[0]
    database = f"sqlite:///{cluster.plan.directory / 'second.db'}"
    settings = {**first.settings, "listeners": f"{listens}:{port}", "observer.database.url": database}
    second = replace(first, name="observer-second", port=port, settings=settings)
    await cluster.running.spawn(second)
    await cluster.running.ready([second])
    own = int(first.settings["node.id"])

    async def listed() -> set[str]:
        described = await cluster.describe_quorum(await cluster.active())
        return {each.replica_directory_id for each in described.observers if each.replica_id == own}

    assert 2 == len(await eventually(listed, lambda found: len(found) == 2))
    for number in range(5):
        await cluster.create(f"seen-{number}", at=await cluster.active())
    topic = DescribeTopicPartitionsRequest.TopicRequest(name="seen-4")
    request = DescribeTopicPartitionsRequest(topics=[topic])

    async def codes() -> set[int]:
        answers = [
            (await call_with_retries(ObserverStub(cluster.channel(each)).DescribeTopicPartitions, request)).response
            for each in (first, second)
        ]
        return {answer.topics[0].error_code for answer in answers}

    assert {ErrorCode.NONE} == await eventually(codes, lambda found: found == {ErrorCode.NONE})
