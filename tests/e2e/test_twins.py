"""Two processes under one broker id: which of them the cluster takes for the broker, by the session of the first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.features import supported_features
from quorate.nouns import NodeId, uuid_text
from quorate.random_uuid import random_uuid
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

SESSION_TIMEOUT_MS = 9_000
BEAT_S = 0.1


def process(cluster: Cluster, broker_id: NodeId) -> BrokerRegistrationRequest:
    """The registration of a process of its own."""
    feature = BrokerRegistrationRequest.Feature
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster.plan.cluster_id,
        incarnation_id=uuid_text(random_uuid()),
        listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="127.0.0.1", port=9_000 + broker_id)],
        features=[
            feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_features().items()
        ],
        log_dirs=[uuid_text(random_uuid())],
    )


async def register(cluster: Cluster, request: BrokerRegistrationRequest) -> int:
    """The epoch that it gets. Raises ApiError."""
    answer = await call_with_retries(cluster.controller_stub(1).BrokerRegistration, request)
    return int(answer.response.broker_epoch)


async def beat(cluster: Cluster, broker_id: NodeId, epoch: int, *, want_shut_down: bool = False) -> bool:
    """One heartbeat of a broker that wants to stay fenced, or to go; does it have to go?"""
    request = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, want_fence=not want_shut_down, want_shut_down=want_shut_down
    )
    return bool((await call_with_retries(cluster.heartbeat_stub.BrokerHeartbeat, request)).response.should_shut_down)


async def is_valid(cluster: Cluster, broker_id: NodeId) -> bool:
    answer = await call_with_retries(
        cluster.heartbeat_stub.DescribeSessions, DescribeSessionsRequest(broker_ids=[broker_id])
    )
    (session,) = answer.response.sessions
    return bool(session.valid)


@asynccontextmanager
async def beating(cluster: Cluster, broker_id: NodeId, epoch: int) -> AsyncIterator[None]:
    """It is fenced, and says all the time that it is there."""

    async def again_and_again() -> None:
        while True:
            await beat(cluster, broker_id, epoch)
            await asyncio.sleep(BEAT_S)

    await beat(cluster, broker_id, epoch)
    task = asyncio.ensure_future(again_and_again())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_fenced_broker_that_is_heard_of_keeps_its_place(cluster: Cluster) -> None:
    """Kafka's ClusterControlManager.registerBroker: the session counts, not what the log says of fences."""
    first = process(cluster, 201)
    epoch = await register(cluster, first)
    async with beating(cluster, 201, epoch):
        with pytest.raises(ApiError) as refused:
            await register(cluster, process(cluster, 201))

        assert ErrorCode.DUPLICATE_BROKER_REGISTRATION == refused.value.code
        assert first.incarnation_id in refused.value.message
        assert epoch == await register(cluster, first)


async def test_its_place_is_free_when_its_session_is_over(cluster: Cluster) -> None:
    epoch = await register(cluster, process(cluster, 202))
    await beat(cluster, 202, epoch)
    await eventually(lambda: is_valid(cluster, 202), lambda valid: not valid)

    assert await register(cluster, process(cluster, 202)) > epoch


async def test_a_broker_that_was_told_to_go_may_come_back_at_once(cluster: Cluster) -> None:
    epoch = await register(cluster, process(cluster, 203))

    assert await beat(cluster, 203, epoch, want_shut_down=True)
    assert await register(cluster, process(cluster, 203)) > epoch


async def test_a_broker_registers_while_there_is_no_heartbeat_service(cluster: Cluster) -> None:
    """As in Kafka after a failover of the controller, which forgets the sessions of fenced brokers."""
    epoch = await register(cluster, process(cluster, 204))
    await beat(cluster, 204, epoch)
    await cluster.kill(cluster.plan.heartbeat)
    try:
        assert await register(cluster, process(cluster, 204)) > epoch
    finally:
        await cluster.restart(cluster.plan.heartbeat)
