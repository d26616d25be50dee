"""BrokerRegistration and UnregisterBroker through the handlers: in turns where it is much, and as one to who asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from kraft.api import unregister_broker_pb2
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kraft.service.admin_pb2 import AdminRequest
from kraft.service.placer_pb2_grpc import PlacerStub
from kraft.service.quorum_pb2 import (
    ConfirmLeadershipRequest,
    ConfirmLeadershipResponse,
    FindQuorumRequest,
    FindQuorumResponse,
    ListenResponse,
)
from kraft.service.quorum_pb2_grpc import (
    QuorumServicer,
    RaftClientServicer,
    add_QuorumServicer_to_server,
    add_RaftClientServicer_to_server,
)
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision, Moment, Proposal
from quorate.controller.engine.deduplication import ID_BYTES, RequestId
from quorate.controller.engine.engine import Answer, Engine
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.state import ClusterState
from quorate.records import PartitionChangeRecord, UnregisterBrokerRecord
from quorate.runtime.calls.stream_requests import StreamContext
from quorate.runtime.clients.client import Client
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller import admin
from services.controller.admin import AdminDoor, EnvelopeContext
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.driver import ControllerDriver
from services.controller.forwarding import Forwarding
from services.controller.handlers import APIS, answer_to
from services.controller.quorum_node import QuorumNode
from tests.controller.clusters import CLUSTER_ID, Cluster, registration

pytestmark = pytest.mark.asyncio

PARTITIONS = 1_100
TWICE = RequestId(bytes(ID_BYTES), UnregisterBrokerResponse)


class Quorum(QuorumServicer):
    """The quorum node beside: which level it is at, and how often it was asked."""

    def __init__(self) -> None:
        self.kraft_version = 1
        self.asked_count = 0

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> FindQuorumResponse:
        self.asked_count += 1
        return FindQuorumResponse(kraft_version=self.kraft_version)


class Node(RaftClientServicer):
    """It leads, whenever it is asked."""

    async def ConfirmLeadership(self, request: ConfirmLeadershipRequest, context: Any) -> ConfirmLeadershipResponse:
        return ConfirmLeadershipResponse()


class Controller:
    """One that is active, over a cluster in which broker 1 is in very many ISRs. What it writes, `commit` commits."""

    def __init__(self, channel: grpc.aio.Channel, quorum: Quorum) -> None:
        self.cluster = Cluster(25, elr=True).brokers(1, 2)
        self.cluster.topic("big", *[[1, 2]] * PARTITIONS, min_insync_replicas="2")
        self.quorum = quorum
        self._channel = channel

    async def lead(self) -> None:
        engine = Engine(self.cluster.state, next_offset=self.cluster.next_offset, is_loaded=True)
        self.driver = ControllerDriver(
            engine, self._channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
        )
        leadership = ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=engine.next_offset)
        await self.driver.hear(ListenResponse(leadership=leadership))
        self.commit()
        placers = Client(("localhost:1",), PlacerStub, telemetry=OFF)
        self.apis = Apis(self.driver, QuorumNode(self._channel), placers, ControllerSettings(), cluster_id=CLUSTER_ID)

    @property
    def state(self) -> ClusterState:
        return self.driver.engine.state

    def epoch(self) -> int:
        broker = self.state.brokers.get(1)
        assert broker is not None
        return broker.epoch

    def commit(self) -> None:
        self.driver.appended(self.driver.engine.next_offset)
        self.driver.commit(self.driver.engine.next_offset)

    def begin(self, rpc: str, asked: Any, **changes: Any) -> asyncio.Task[Answer]:
        return asyncio.create_task(answer_to(self.apis, Call(api=APIS[rpc], asked=asked, **changes)))

    async def over(self, *tasks: asyncio.Future[Any]) -> None:
        """Commit whatever there is, again and again."""
        async with asyncio.timeout(120):
            while not all(task.done() for task in tasks):
                self.commit()
                await asyncio.sleep(0)

    async def until_begun(self) -> None:
        """One chunk is decided, and nothing of it committed."""
        begun = self.driver.engine.next_offset
        async with asyncio.timeout(120):
            while True:
                if self.driver.engine.next_offset > begun:
                    return
                await asyncio.sleep(0)

    async def counts(self) -> tuple[int, int]:
        """What somebody else reads when it is his turn: how many ISRs broker 1 is in, and how many ELRs."""
        answer = await self.driver.write(
            "test", lambda state, _: Decision((state.topics.isr_count(1), state.topics.elr_count(1)))
        )
        isr_count, elr_count = answer.response
        return isr_count, elr_count


@pytest.fixture
async def controller() -> AsyncIterator[Controller]:
    server, quorum = grpc.aio.server(), Quorum()  # type: ignore[abstract]  # it is asked for nothing else
    add_QuorumServicer_to_server(quorum, server)
    add_RaftClientServicer_to_server(Node(), server)  # type: ignore[abstract]  # as above
    port = server.add_insecure_port("localhost:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        yield Controller(channel, quorum)
    await server.stop(None)


def unregister() -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=1)


def another_process(*, incarnation: int = 1, **changes: Any) -> BrokerRegistrationRequest:
    """Of broker 1, whose last one did not stop in order."""
    return registration(1, incarnation=incarnation, previous_broker_epoch=-1, **changes)


# UnregisterBroker.


async def test_others_have_their_turn_while_a_broker_is_unregistered(controller: Controller) -> None:
    await controller.lead()
    struck_off = controller.begin("UnregisterBroker", unregister())
    await controller.until_begun()
    other = asyncio.create_task(controller.counts())
    await controller.over(struck_off, other)

    assert 0 < other.result()[0] < PARTITIONS
    assert (None, 0) == (controller.state.brokers.get(1), controller.state.topics.isr_count(1))
    assert UnregisterBrokerResponse(error_message="") == struck_off.result().response
    assert controller.driver.engine.next_offset == struck_off.result().offset


async def test_who_only_asks_what_would_be_written_is_shown_the_whole(controller: Controller) -> None:
    await controller.lead()
    before = controller.driver.engine.next_offset
    shown = controller.begin("UnregisterBroker", unregister(), validate_only=True)
    await controller.over(shown)
    proposal = shown.result().response

    assert isinstance(proposal, Proposal)
    assert [PartitionChangeRecord] * PARTITIONS + [UnregisterBrokerRecord] == list(map(type, proposal.records))
    assert (before, PARTITIONS) == (controller.driver.engine.next_offset, controller.state.topics.isr_count(1))


class Stream:
    """One that nobody in particular has opened."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5000"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}


async def test_others_have_their_turn_while_the_whole_is_made_ready(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes four times as long as to decide it."""
    monkeypatch.setattr(admin, "PACKED_PER_TURN", 50)
    await controller.lead()
    door = AdminDoor(controller.apis, Forwarding(controller.driver, OFF), OFF)
    asked = AdminRequest(
        validate_only=True, unregister_broker=unregister_broker_pb2.UnregisterBrokerRequest(broker_id=1)
    )
    shown = asyncio.create_task(door.submit(asked, EnvelopeContext(StreamContext(Stream()), 30_000)))
    turns_of_others = 0
    while not shown.done():
        await asyncio.sleep(0)
        turns_of_others += 1

    assert PARTITIONS + 1 == len(shown.result().records)
    assert turns_of_others > PARTITIONS / 50


async def test_a_request_that_is_sent_again_is_done_once(controller: Controller) -> None:
    """By then another process of the broker is in all the ISRs: nothing of it is touched."""
    await controller.lead()
    first = controller.begin("UnregisterBroker", unregister(), request_id=TWICE)
    again = controller.begin("UnregisterBroker", unregister(), request_id=TWICE)
    await controller.over(first, again)
    registered = controller.begin("BrokerRegistration", another_process())
    await controller.over(registered)

    def back(state: ClusterState, _: Moment) -> Decision[None]:
        """As its leader would say, partition by partition."""
        topic = state.topics.by_name("big")
        assert topic is not None
        return Decision(None, tuple(PartitionChangeRecord(each, topic.id, isr=(1, 2)) for each in topic.partitions))

    rejoined = asyncio.create_task(controller.driver.write("test", back))
    await controller.over(rejoined)
    before = controller.driver.engine.next_offset
    late = controller.begin("UnregisterBroker", unregister(), request_id=TWICE)
    await controller.over(late)

    assert first.result().response == again.result().response == late.result().response
    assert (before, PARTITIONS) == (controller.driver.engine.next_offset, controller.state.topics.isr_count(1))


async def test_it_is_struck_off_also_when_the_asker_has_gone(controller: Controller) -> None:
    await controller.lead()
    struck_off = controller.begin("UnregisterBroker", unregister())
    await controller.until_begun()
    struck_off.cancel()
    async with asyncio.timeout(120):
        while 1 in controller.state.brokers:
            controller.commit()
            await asyncio.sleep(0)

    assert struck_off.cancelled()


async def test_leadership_that_is_lost_leaves_the_broker_where_it_was(controller: Controller) -> None:
    await controller.lead()
    struck_off = controller.begin("UnregisterBroker", unregister())
    await controller.until_begun()
    controller.driver.cut_off()
    await asyncio.wait([struck_off], timeout=120)
    error = struck_off.exception()

    assert isinstance(error, ApiError)
    assert (ErrorCode.NOT_CONTROLLER, True) == (error.code, 1 in controller.state.brokers)
    assert PARTITIONS == controller.state.topics.isr_count(1), "nothing of it was committed"


# BrokerRegistration.


@pytest.fixture
async def eligible(controller: Controller) -> Controller:
    """Broker 1 is fenced: out of every ISR, and in as many ELRs."""
    controller.cluster.change(1, ControlState.FENCED)
    assert PARTITIONS == controller.cluster.state.topics.elr_count(1)
    await controller.lead()
    return controller


async def test_others_have_their_turn_while_a_broker_registers(eligible: Controller) -> None:
    registered = eligible.begin("BrokerRegistration", another_process())
    await eligible.until_begun()
    other = asyncio.create_task(eligible.counts())
    await eligible.over(registered, other)

    assert 0 < other.result()[1] < PARTITIONS
    assert 0 == eligible.state.topics.elr_count(1)
    assert eligible.epoch() == registered.result().response.broker_epoch
    assert eligible.driver.engine.next_offset - 1 == eligible.epoch(), "its own record is the last, and alone"


async def test_a_retry_while_turns_are_under_way_gets_the_same_epoch(eligible: Controller) -> None:
    first = eligible.begin("BrokerRegistration", another_process())
    await eligible.until_begun()
    first.cancel()  # its deadline is over, and it is sent again
    second = eligible.begin("BrokerRegistration", another_process())
    third = eligible.begin("BrokerRegistration", another_process())
    await eligible.over(second, third)

    assert eligible.epoch() == second.result().response.broker_epoch == third.result().response.broker_epoch


async def test_a_registration_that_is_refused_writes_nothing(eligible: Controller) -> None:
    before = eligible.driver.engine.next_offset
    refused = eligible.begin("BrokerRegistration", another_process(cluster_id="other"))
    await eligible.over(refused)
    error = refused.exception()

    assert isinstance(error, ApiError)
    assert (ErrorCode.INCONSISTENT_CLUSTER_ID, before) == (error.code, eligible.driver.engine.next_offset)


async def test_the_quorums_level_is_asked_for_again_when_the_way_is_clear(eligible: Controller) -> None:
    """It was raised in between, and is above what the broker supports."""
    eligible.quorum.kraft_version = 0
    without = tuple(each for each in another_process().features if each.name != "kraft.version")
    refused = eligible.begin("BrokerRegistration", another_process(features=without))
    await eligible.until_begun()
    eligible.quorum.kraft_version = 1
    await eligible.over(refused)
    error = refused.exception()

    assert isinstance(error, ApiError)
    assert (ErrorCode.UNSUPPORTED_VERSION, 2) == (error.code, eligible.quorum.asked_count)


async def test_what_is_little_is_asked_for_once(controller: Controller) -> None:
    await controller.lead()
    registered = controller.begin("BrokerRegistration", registration(3))
    await controller.over(registered)

    assert 1 == controller.quorum.asked_count
