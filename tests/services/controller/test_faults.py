"""What the controller's driver does when its own code or its log fails: it ends, or has another lead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from kraft import Message
from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.failures import Fault, Where
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    TopicRecord,
    encode_record,
)
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.batch import data_batch
from services.controller.driver import ControllerDriver
from services.controller.quorum_link import EventsBehind

LEADS = ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)


@asynccontextmanager
async def controller(*log: Message, bootstrap: tuple[Message, ...] = ()) -> AsyncIterator[ControllerDriver]:
    """Node 1's, behind this log; nobody is at the other end of its channel: the test says what the node would."""
    async with grpc.aio.insecure_channel("localhost:1") as channel:
        engine = Engine(ClusterState())
        engine.replay(log, base_offset=0, end_offset=len(log))
        yield ControllerDriver(
            engine, channel, SystemClock(), OFF, node_id=1, activation=activate(bootstrap, ControllerSettings())
        )


async def ended(driver: ControllerDriver) -> Exception:
    """What ends the process."""
    with pytest.raises(ExceptionGroup) as raised:
        await driver.run()
    error: Exception = raised.value
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    return error


@pytest.mark.parametrize(
    ("log", "bootstrap", "why"),
    [
        pytest.param(
            (FeatureLevelRecord(METADATA_VERSION, 12), BeginTransactionRecord("half")),
            (),
            "a transaction is open since offset 1",
            id="a transaction at a level that has none",
        ),
        pytest.param((), (TopicRecord("t"),), "name no metadata.version", id="a bootstrap without a level"),
        pytest.param(
            (),
            (FeatureLevelRecord(METADATA_VERSION, 25), FenceBrokerRecord(7, 7)),
            "FenceBrokerRecord at offset 3",
            id="a bootstrap that cannot be applied",
        ),
        pytest.param(
            (),
            (FeatureLevelRecord(METADATA_VERSION, 25), *[NoOpRecord()] * 9_998),
            "takes 10001 records; one write has at most 10000",
            id="a bootstrap that is no write",
        ),
    ],
)
async def test_who_cannot_activate_ends(log: tuple[Message, ...], bootstrap: tuple[Message, ...], why: str) -> None:
    """Kafka's fatal "exception while completing controller activation"."""
    async with controller(*log, bootstrap=bootstrap) as driver:
        next_offset = max(1, len(log))
        leads = ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=next_offset)

        await driver.hear(ListenResponse(leadership=leads))

        assert not driver.is_active
        error = await ended(driver)
        assert isinstance(error, Fault)
        assert Where.ACTIVATING is error.where
        assert why in str(error)


async def test_who_cannot_apply_what_it_decided_ends_and_its_caller_is_told() -> None:
    async with controller() as driver:
        await driver.hear(ListenResponse(leadership=LEADS))
        with pytest.raises(ApiError, match="nothing was written") as raised:
            await driver.write("test", lambda *_: Decision(None, (NoOpRecord(), FenceBrokerRecord(7, 7))))

        assert ErrorCode.UNKNOWN_SERVER_ERROR is raised.value.code
        assert not driver.is_active
        error = await ended(driver)
        assert isinstance(error, Fault)
        assert "FenceBrokerRecord at offset" in str(error)


def mistaken(*_: object) -> Decision[None]:
    raise ZeroDivisionError("a mistake")


@pytest.mark.parametrize("command", [mistaken, lambda *_: Decision(None, (NoOpRecord(),))])
async def test_a_read_that_fails_costs_its_caller_alone(
    command: Command[None], caplog: pytest.LogCaptureFixture
) -> None:
    """It counts in MetadataErrorCount, and its traceback is in the log. The second would write."""
    async with controller() as driver:
        await driver.hear(ListenResponse(leadership=LEADS))
        driver.appended(driver.engine.next_offset)
        driver.commit(driver.engine.next_offset)
        before = driver.engine.next_offset
        with pytest.raises(ApiError, match="nothing was written") as raised:
            await driver.query("test", command)

        assert ErrorCode.UNKNOWN_SERVER_ERROR is raised.value.code
        assert driver.is_active
        assert (before, 1) == (driver.engine.next_offset, driver.engine.metadata_error_count)
        (failed,) = (record for record in caplog.records if record.message == "a read has failed")
        assert failed.exc_info is not None


@pytest.mark.parametrize(("record", "error"), [(FenceBrokerRecord(7, 7), Fault), (None, Corrupt)])
async def test_a_standby_that_cannot_replay_ends(record: Message | None, error: type[Exception]) -> None:
    value = b"\x01\x00" if record is None else encode_record(record, 0)
    data = data_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[value])
    async with controller() as driver:
        with pytest.raises(error):
            await driver.hear(ListenResponse(batches=ListenResponse.Batches(records=data)))

        assert 1 == driver.engine.metadata_error_count


async def test_whom_its_node_refuses_though_it_leads_has_its_stream_begin_anew() -> None:
    """Else nobody could write: the node leads on, and takes this controller for active."""
    async with controller() as driver:
        await driver.hear(ListenResponse(leadership=LEADS))
        with pytest.raises(EventsBehind):
            driver.refused(ErrorCode.RECORD_LIST_TOO_LARGE, 1)

        assert not driver.is_active


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
async def test_who_is_told_that_another_leads_stands_by(error: ErrorCode) -> None:
    async with controller() as driver:
        await driver.hear(ListenResponse(leadership=LEADS))

        driver.refused(error, 1)

        assert not driver.is_active
