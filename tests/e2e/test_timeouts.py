"""`timeout_ms` in a request: what is not begun by then is refused, and changes nothing, as by Kafka's controller."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.api.alter_partition_reassignments_pb2 import AlterPartitionReassignmentsRequest
from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.service.admin_pb2 import AdminRequest
from quorate.errors import ApiError, ErrorCode
from tests.e2e.calls import call_with_retries
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

LATE = {ErrorCode.REQUEST_TIMED_OUT}
TIMED = {
    "AlterPartitionReassignments": AlterPartitionReassignmentsRequest,
    "CreatePartitions": CreatePartitionsRequest,
    "CreateTopics": CreateTopicsRequest,
    "DeleteTopics": DeleteTopicsRequest,
    "ElectLeaders": ElectLeadersRequest,
}


def topic(name: str) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=3)


@pytest.mark.parametrize("rpc", TIMED)
@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_request_without_time_is_not_begun(cluster: Cluster, rpc: str, timeout_ms: int) -> None:
    for door in VOTERS:
        with pytest.raises(ApiError) as refused:
            await call_with_retries(
                getattr(cluster.controller_stub(door), rpc), TIMED[rpc](timeout_ms=timeout_ms), final=LATE
            )

        assert ErrorCode.REQUEST_TIMED_OUT == refused.value.code
        assert f"{rpc} could not be begun within its timeout_ms of {timeout_ms}" in refused.value.message


@pytest.mark.parametrize("rpc", TIMED)
async def test_a_request_that_does_not_say_has_time(cluster: Cluster, rpc: str) -> None:
    await call_with_retries(getattr(cluster.controller_stub(1), rpc), TIMED[rpc]())


async def test_in_an_envelope_it_counts_as_well(cluster: Cluster) -> None:
    asked: dict[str, Any] = {"create_topics": CreateTopicsRequest(topics=[topic("enveloped")], timeout_ms=0)}
    with pytest.raises(ApiError) as refused:
        await call_with_retries(cluster.controller_stub(1).Submit, AdminRequest(**asked), final=LATE)

    assert ErrorCode.REQUEST_TIMED_OUT == refused.value.code
    assert "enveloped" not in await cluster.topics()


async def test_who_waits_for_a_placer_that_hangs_waits_no_longer(cluster: Cluster) -> None:
    request = CreateTopicsRequest(topics=[topic("hanging")], timeout_ms=300)
    async with cluster.stopped(cluster.plan.placer):
        with pytest.raises(ApiError) as refused:
            await call_with_retries(cluster.controller_stub(1).CreateTopics, request, final=LATE)
        patient = CreateTopicsRequest(topics=[topic("placed-by-the-controller")], timeout_ms=30_000)
        placed = await call_with_retries(cluster.controller_stub(1).CreateTopics, patient)

    assert [(0, 3)] == [(each.error_code, each.replication_factor) for each in placed.response.topics]
    assert "placed-by-the-controller" in await cluster.topics(at=1)
    assert "CreateTopics could not be begun within its timeout_ms of 300" in refused.value.message
    assert "hanging" not in await cluster.topics(at=1)
