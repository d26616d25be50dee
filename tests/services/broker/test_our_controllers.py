"""Services of ours behind the broker's port: each request goes to the service that takes it, and refusals are
raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kraft import Message, Uuid
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraft.service.controller_pb2_grpc import ControllerServicer, ControllerStub, add_ControllerServicer_to_server
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, HeartbeatStub, add_HeartbeatServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client
from quorate.runtime.clients.patience import Patience
from quorate.wire.protobuf import to_protobuf, to_struct
from services.broker.controllers import OurControllers
from services.broker.lifecycle import Lifecycle
from tests.services.scripted import LOOPBACK
from tests.sim_driver.loop import Loop

DEADLINE_MS = 30_000
DIRECTORY = Uuid(bytes(range(16)))
REGISTRATION = BrokerRegistrationRequest(
    broker_id=101,
    cluster_id="n3Vb0q7mSlW8cYkXe2RtZw",
    incarnation_id=DIRECTORY,
    listeners=(BrokerRegistrationRequest.Listener("PLAINTEXT", LOOPBACK, 9092, 0),),
    features=(BrokerRegistrationRequest.Feature("metadata.version", 7, 29),),
    rack=None,
    log_dirs=(DIRECTORY,),
)
ASKED: dict[Message, Message] = {
    REGISTRATION: BrokerRegistrationResponse(broker_epoch=7),
    AlterPartitionRequest(broker_id=101, broker_epoch=7): AlterPartitionResponse(),
    AssignReplicasToDirsRequest(broker_id=101, broker_epoch=7): AssignReplicasToDirsResponse(),
    AllocateProducerIdsRequest(101, 7): AllocateProducerIdsResponse(producer_id_start=1_000, producer_id_len=1_000),
    BrokerHeartbeatRequest(101, 7, 3): BrokerHeartbeatResponse(is_fenced=False),
}


async def tell_ready(_is_ready: bool) -> None:
    """Nobody asks."""


class Answering:
    """Answers as the table says, and remembers what it was asked, as structs."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.error = ErrorCode.NONE
        self.broker_epoch = 7
        self.peers: set[str] = set()
        self.unheard: set[str] = set()
        """Connections, by the client's address, over which nothing comes any more."""
        self.refusal: ApiError | None = None

    async def _answer(self, request: Any, context: Any) -> Any:
        self.peers.add(context.peer())
        if context.peer() in self.unheard:
            await asyncio.Event().wait()
        if self.refusal is not None:
            raise self.refusal
        asked = to_struct(request)
        self.asked.append(asked)
        answer: Any = to_protobuf(ASKED[asked])
        answer.error_code = self.error
        if hasattr(answer, "broker_epoch"):
            answer.broker_epoch = self.broker_epoch
        return answer


class Controller(Answering, ControllerServicer):
    """A controller of ours."""

    BrokerRegistration = AlterPartition = AssignReplicasToDirs = AllocateProducerIds = Answering._answer


class Heartbeats(Answering, HeartbeatServicer):
    """A heartbeat service."""

    BrokerHeartbeat = Answering._answer


@asynccontextmanager
async def services(*, interval_ms: int = 200) -> AsyncIterator[tuple[OurControllers, Controller, Heartbeats]]:
    controller, heartbeats = Controller(), Heartbeats()
    server = Server()
    server.add("kraft.service.Controller", add_ControllerServicer_to_server, controller)
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, heartbeats)
    at = f"{LOOPBACK}:{server.listen(f'{LOOPBACK}:0')}"
    await server.start()
    asking = OurControllers(
        Client([at], ControllerStub), Client([at], HeartbeatStub), heartbeat_interval_ms=interval_ms
    )
    try:
        yield asking, controller, heartbeats
    finally:
        await asking.close()
        await server.stop(grace_s=0.0)


async def test_each_request_comes_whole_to_the_service_that_takes_it() -> None:
    async with services() as (asking, controller, heartbeats):
        answers = {each: await asking.ask(type(said), each, deadline_ms=DEADLINE_MS) for each, said in ASKED.items()}

    assert answers == ASKED
    *of_controller, beat = ASKED
    assert of_controller == controller.asked
    assert [beat] == heartbeats.asked


async def test_the_error_of_a_whole_answer_is_raised() -> None:
    async with services() as (asking, controller, _):
        controller.error = ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(ApiError) as refused:
            await asking.ask(AlterPartitionResponse, AlterPartitionRequest(101, 7), deadline_ms=DEADLINE_MS)

    assert ErrorCode.STALE_BROKER_EPOCH is refused.value.code


async def test_after_a_heartbeat_without_an_answer_the_next_one_has_another_connection() -> None:
    *_, beat = ASKED
    async with services(interval_ms=200) as (asking, _, heartbeats):
        answers = [await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=DEADLINE_MS)]
        for _ in range(2):  # an answer in time has it end as soon the next time
            heartbeats.unheard |= heartbeats.peers
            with pytest.raises(ApiError) as late:
                await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=150)
            answers.append(await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=DEADLINE_MS))

    assert ErrorCode.REQUEST_TIMED_OUT is late.value.code
    assert 3 * [ASKED[beat]] == answers
    assert 3 == len(heartbeats.peers)


async def test_a_heartbeat_service_that_says_it_is_late_keeps_its_connection() -> None:
    *_, beat = ASKED
    async with services(interval_ms=2) as (asking, _, heartbeats):
        heartbeats.refusal = ApiError(ErrorCode.REQUEST_TIMED_OUT, "it has not applied what it waits for")
        for _ in range(3):
            with pytest.raises(ApiError, match="it has not applied"):
                await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=DEADLINE_MS, retry=lambda _: False)

    assert 1 == len(heartbeats.peers)


async def test_a_heartbeat_that_had_but_a_moment_for_its_last_try_costs_no_connection() -> None:
    *_, beat = ASKED
    async with services(interval_ms=60_000) as (asking, _, heartbeats):
        await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=DEADLINE_MS)
        heartbeats.unheard |= heartbeats.peers
        with pytest.raises(ApiError, match="DEADLINE_EXCEEDED"):
            await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=50)
        heartbeats.unheard.clear()
        answer = await asking.ask(BrokerHeartbeatResponse, beat, deadline_ms=DEADLINE_MS)

    assert ASKED[beat] == answer
    assert 1 == len(heartbeats.peers)


def test_each_connection_without_an_answer_may_be_silent_for_twice_as_long_up_to_a_limit() -> None:
    """One that is slow, and not gone, is not to have a handshake for each of its late answers."""
    times, patience, left = Loop(Random(1), disorder=0), Patience(1.0), list[float]()

    async def be_silent() -> None:
        since = times.time()
        for _ in range(28):
            await asyncio.sleep(0.5)
            if patience.runs_out(silent_since=since):
                since = times.time()
                left.append(since)
        patience.answered()
        left.append(float(patience.runs_out(silent_since=since - 1)))

    times.create_task(be_silent())
    times.run_until_us(15_000_000)
    times.end()

    assert [1, 3, 7, 11, True] == left


class Late:
    """Controllers that answer a heartbeat after half a second, and the second one not at all."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    async def ask(self, answer: type[Any], request: Message, *, deadline_ms: int, retry: Any = None) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            return ASKED[request]
        loop = asyncio.get_running_loop()
        self.begun.append(loop.time())
        if len(self.begun) == 2:
            await asyncio.sleep(deadline_ms / 1_000)
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "nothing comes")
        await asyncio.sleep(0.5)
        return BrokerHeartbeatResponse(is_fenced=False)

    def asked(self, request: type[Message]) -> str:
        return "nowhere"

    async def close(self) -> None:
        """There is nothing to end."""


def test_heartbeats_begin_an_interval_apart_however_late_their_answers() -> None:
    """A session lasts four and a half intervals: an answer that does not come may not cost two of them."""
    times, controllers = Loop(Random(1), disorder=0), Late()

    async def live() -> None:
        lifecycle = Lifecycle(REGISTRATION, controllers, interval_ms=2_000, published=lambda: 0, tell_ready=tell_ready)
        await lifecycle.register(timeout_ms=DEADLINE_MS)
        await lifecycle.run()

    times.create_task(live())
    times.run_until_us(9_000_000)
    times.end()

    assert [0, 2, 4, 6, 8] == controllers.begun


async def test_a_registration_that_is_answered_without_a_broker_epoch_is_none() -> None:
    """-1 is the field's default, which an answer has that says nothing."""
    async with services() as (asking, controller, _):
        controller.broker_epoch = -1
        lifecycle = Lifecycle(REGISTRATION, asking, interval_ms=1_000, published=lambda: 0, tell_ready=tell_ready)
        with pytest.raises(ApiError, match="it answers a registration without a broker epoch"):
            await lifecycle.register(timeout_ms=DEADLINE_MS)
