"""A controller that stands by, at its door: whom it passes a call on to, how often, and for how long."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import pytest

from kraft.api.describe_cluster_pb2 import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION
from quorate.records import FeatureLevelRecord, RegisterControllerRecord
from quorate.runtime.access.passing_on import CLIENT_HOST, CLIENT_PRINCIPAL, FORWARDED
from quorate.runtime.access.passing_on import PASSED_ON as MARK
from quorate.runtime.requests.statuses import error_from_call
from services.controller.forwarding import DEADLINE_MS
from services.controller.outliving import to_the_end
from tests.services.controllers import NOWHERE, InProcess, controller
from tests.services.scripted import ScriptedController, controller_at_work, quorum_at_work

ACTIVE = 2
PASSED_ON = ((FORWARDED, "1"),)
LEFT_S = 10
"""How long a caller waits: less than a call without a deadline is given."""
ROUNDED_S = 1
"""gRPC rounds up what is left."""
Endpoint = RegisterControllerRecord.ControllerEndpoint


def knowing(address: str) -> Engine:
    """What a controller knows in whose log controller 2 has registered this address."""
    engine = Engine(ClusterState())
    engine.replay([FeatureLevelRecord(METADATA_VERSION, LATEST), registered(address)], base_offset=0, end_offset=2)
    return engine


def registered(address: str) -> RegisterControllerRecord:
    """The record by which controller 2 says that it listens at `address`."""
    host, _, port = address.rpartition(":")
    return RegisterControllerRecord(ACTIVE, end_points=(Endpoint("CONTROLLER", host, int(port)),))


@pytest.fixture
async def standby() -> AsyncIterator[tuple[InProcess, ScriptedController]]:
    """Controller 1, which knows that 2 is active and where it listens."""
    async with (
        quorum_at_work() as (quorum, quorum_address),
        controller_at_work() as (active, address),
        controller(quorum_address, engine=knowing(address)) as standing_by,
    ):
        quorum.lead(ACTIVE, epoch=1, next_offset=2)
        await standing_by.until_led_by(ACTIVE)
        yield standing_by, active


async def test_what_is_handed_over_says_so(standby: tuple[InProcess, ScriptedController]) -> None:
    standing_by, active = standby
    await standing_by.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=LEFT_S)

    assert ["1"] == [metadata.get(FORWARDED) for metadata in active.metadata]


async def test_what_is_handed_over_says_whom_it_is_for(standby: tuple[InProcess, ScriptedController]) -> None:
    """What the sender claims for itself is not among it: it would look like what this controller has seen."""
    standing_by, active = standby
    principal, host = (CLIENT_PRINCIPAL, "User:alice"), (CLIENT_HOST, "10.1.2.3")
    for metadata in (((MARK, "1"), host, principal), ((MARK, "1"), principal), (host, principal)):
        await standing_by.stub.DescribeTopicPartitions(
            DescribeTopicPartitionsRequest(), timeout=LEFT_S, metadata=metadata
        )

    assert ["User:alice", None, None] == [each.get(CLIENT_PRINCIPAL) for each in active.metadata]
    assert "127.0.0.1" == active.metadata[-1][CLIENT_HOST]


async def test_what_was_passed_on_is_not_passed_on_again(standby: tuple[InProcess, ScriptedController]) -> None:
    """Two that each hold the other for active would otherwise send one call round and round."""
    standing_by, active = standby
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await standing_by.stub.DescribeTopicPartitions(
            DescribeTopicPartitionsRequest(), timeout=LEFT_S, metadata=PASSED_ON
        )
    error = error_from_call(refused.value)

    assert (ErrorCode.NOT_CONTROLLER, str(ACTIVE)) == (error.code, error.metadata["leader_id"])
    assert [] == active.metadata


async def test_a_refusal_that_was_passed_back_leaves_neither_itself_nor_its_request(
    standby: tuple[InProcess, ScriptedController],
) -> None:
    """A request of 4 MiB would stay until a full garbage collection, which an idle process never runs."""
    standing_by, active = standby

    async def refuse() -> None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "no")

    def there() -> list[object]:
        return [each for each in gc.get_objects() if isinstance(each, ApiError | DescribeTopicPartitionsRequest)]

    active.before_answering = refuse
    gc.collect()
    gc.disable()
    try:
        refusals, before = 0, there()  # what other tests of this process have
        for _ in range(5):
            try:
                await standing_by.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=LEFT_S)
            except grpc.aio.AioRpcError:
                refusals += 1
        kept = [each for each in there() if id(each) not in set(map(id, before))]
    finally:
        gc.enable()

    assert (5, []) == (refusals, kept)


async def test_what_outlives_its_caller_leaves_no_error() -> None:
    errors: list[weakref.ref[ApiError]] = []

    async def refuse() -> None:
        await asyncio.sleep(0)
        raise noted()

    def noted() -> ApiError:
        made = ApiError(ErrorCode.INVALID_REQUEST, "no")
        errors.append(weakref.ref(made))
        return made

    gc.collect()
    gc.disable()
    try:
        with suppress(ApiError):
            await to_the_end(refuse())
        await asyncio.sleep(0)  # the callback that has brought the error is over
        kept = [error() for error in errors]
    finally:
        gc.enable()

    assert [None] == kept


async def test_who_cannot_reach_the_active_one_says_who_it_is() -> None:
    """It does not wait for a connection for as long as its caller does: somebody else may become active."""
    async with (
        quorum_at_work() as (quorum, quorum_address),
        controller(quorum_address, engine=knowing(NOWHERE)) as standing_by,
    ):
        quorum.lead(ACTIVE, epoch=1, next_offset=2)
        await standing_by.until_led_by(ACTIVE)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await standing_by.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=LEFT_S)
    error = error_from_call(refused.value)

    assert (ErrorCode.NOT_CONTROLLER, str(ACTIVE)) == (error.code, error.metadata["leader_id"])
    assert NOWHERE == error.metadata["leader_endpoint"]


async def test_an_address_where_no_controller_listens_is_not_the_active_one() -> None:
    """The record is of an earlier process of controller 2: at its address a quorum node listens now."""
    async with (
        quorum_at_work() as (quorum, quorum_address),
        controller(quorum_address, engine=knowing(quorum_address)) as standing_by,
    ):
        quorum.lead(ACTIVE, epoch=1, next_offset=2)
        await standing_by.until_led_by(ACTIVE)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await standing_by.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=LEFT_S)

    assert ErrorCode.NOT_CONTROLLER == error_from_call(refused.value).code


async def test_what_is_handed_over_ends_with_its_callers_patience(
    standby: tuple[InProcess, ScriptedController],
) -> None:
    standing_by, active = standby
    await standing_by.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=LEFT_S)
    (left_s,) = active.left_s

    assert left_s < LEFT_S + ROUNDED_S < DEADLINE_MS / 1000


async def test_nothing_is_passed_on_to_a_kafkas_controller() -> None:
    """It differs from ours by its listener's name; who asks hears at once that another is active."""
    async with (
        quorum_at_work() as (quorum, quorum_address),
        controller_at_work() as (active, address),
        controller(quorum_address, engine=knowing(address), listener="ADMIN") as standing_by,
    ):
        quorum.lead(ACTIVE, epoch=1, next_offset=2)
        await standing_by.until_led_by(ACTIVE)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await standing_by.stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(), timeout=LEFT_S)
        asked = DescribeClusterRequest(endpoint_type=2)
        told: DescribeClusterResponse = await standing_by.stub.DescribeCluster(asked, timeout=LEFT_S)
        error = error_from_call(refused.value)

    assert (ErrorCode.NOT_CONTROLLER, str(ACTIVE)) == (error.code, error.metadata["leader_id"])
    assert [] == active.metadata
    assert (ACTIVE, [ACTIVE]) == (told.controller_id, [each.broker_id for each in told.brokers])
