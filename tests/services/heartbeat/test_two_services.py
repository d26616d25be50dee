"""Two heartbeat services at once, each with a part of the heartbeats: one counts, beside a real controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.service.controller_pb2 import BROKER_CONTROL_STATE_FENCED, ChangeBrokerStateRequest, ClaimSessionsRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub, add_HeartbeatServicer_to_server
from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import SESSION_LEAST_MS, SESSION_TIMEOUT_MS, Claimant, Sessions, claim
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import NodeId
from quorate.raft.history import History
from quorate.raft.voters import VoterSet
from quorate.records import decode_record, encode_record
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.statuses import error_from_call
from quorate.runtime.telemetry.tracing import OFF
from services.controller.sessions import SessionLookup
from services.heartbeat import driver as heartbeat_driver
from services.heartbeat import standing
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.servicer import HeartbeatService
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from tests.bench.synthetic import Shape, broker_epoch, cluster
from tests.services.clocks import MovedClock
from tests.services.controllers import InProcess, controller
from tests.services.nodes import committed, sole_leader
from tests.services.scripted import WITHIN_S, ScriptedQuorum, listening, quorum_at_work

SHAPE: Final = Shape(partitions=6, brokers=20)
BROKERS: Final = range(20)
STEP_MS: Final = 100
SILENT: Final = 3


class Severable(Client[ControllerStub]):
    """A client of controllers that can be cut from all of them."""

    is_cut = False
    refused_count = 0

    async def call(self, *arguments: Any, **named: Any) -> Any:
        if self.is_cut:
            self.refused_count += 1
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "cut off by the test")
        return await super().call(*arguments, **named)


class Two:
    """The services, the clock of their sessions, and the controller with its quorum node."""

    def __init__(
        self,
        services: list[HeartbeatDriver],
        clients: list[Severable],
        clock: MovedClock,
        quorum: ScriptedQuorum,
        active: InProcess,
    ) -> None:
        self.services = services
        self.clients = clients
        self.clock = clock
        self.quorum = quorum
        self.active = active

    async def beat(self, broker_id: NodeId) -> None:
        """At one service, by its number; at the other one if that says that it is not the one."""
        first = broker_id % 2
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=broker_epoch(broker_id), current_metadata_offset=100
        )
        try:
            await self.services[first].heartbeat(request)
        except ApiError as refusal:
            assert refusal.code is ErrorCode.NOT_CONTROLLER, refusal
            await self.services[1 - first].heartbeat(request)

    async def try_to_beat(self, broker_id: NodeId) -> None:
        """For a moment there may be none that takes heartbeats."""
        with suppress(ApiError):
            await self.beat(broker_id)

    async def pass_ms(self, ms: int, *, silent: NodeId | None = None) -> None:
        for _ in range(ms // STEP_MS):
            self.clock.now_ms += STEP_MS
            for service in self.services:
                assert service.now_ms <= self.clock.now_ms
            for broker_id in BROKERS:
                if broker_id != silent:
                    await self.beat(broker_id)
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Brokers go on meanwhile; no time of their sessions passes."""
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                for broker_id in BROKERS:
                    await self.try_to_beat(broker_id)
                await asyncio.sleep(0)

    @property
    def changed(self) -> list[NodeId]:
        """The brokers whose state the controller has changed."""
        values = [value for append in self.quorum.appends for batch in append.batches for value in batch.values]
        return [record.broker_id for value in values if hasattr(record := decode_record(value), "broker_id")]


@asynccontextmanager
async def two(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, session_ms: int = SESSION_TIMEOUT_MS
) -> AsyncIterator[Two]:
    """Both have read a log of 20 unfenced brokers, and have the controller's answer on where they stand."""
    monkeypatch.setattr(heartbeat_driver, "CHECK_S", 0)
    state, clock, records = ClusterState(), MovedClock(), list(cluster(SHAPE))
    for offset, record in enumerate(records):
        state.apply(record, offset)
    engine = Engine(state, next_offset=len(records), is_loaded=True)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(sole_leader(directory))
        peer, server = (
            PeerServicer(log, NodeEndpoints((), (), History(VoterSet.of(1))), cluster_id="c", node_id=1),
            Server(),
        )
        server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
        log_address = await stack.enter_async_context(listening(server))
        values = [encode_record(record, record_version(record, LATEST)) for record in records]
        end = log.append(log.core.role.epoch, log.core.log.leo, [values]).end_offset
        await committed(log, end)
        scripted, quorum = await stack.enter_async_context(quorum_at_work())
        active = await stack.enter_async_context(controller(quorum, engine=engine))
        scripted.lead(1, epoch=5, next_offset=len(records))
        await active.until_active()
        services, clients = [], []
        for name in ("a:1", "b:1"):
            reader, controllers = LogReader([log_address], open_channel), Severable([active.address], ControllerStub)
            stack.push_async_callback(reader.close)
            stack.push_async_callback(controllers.close)
            replica, claimant = Replica(reader, clock, OFF), Claimant(id=name, address=name)
            service = HeartbeatDriver(replica, Sessions(session_ms), controllers, clock, claimant)
            running = asyncio.ensure_future(service.run())
            stack.push_async_callback(asyncio.wait, [running])
            stack.callback(running.cancel)
            async with asyncio.timeout(WITHIN_S):
                await replica.reached(end)
                await service.standing.told.wait()
            services.append(service)
            clients.append(controllers)
        yield Two(services, clients, clock, scripted, active)


async def test_of_two_one_counts_and_no_broker_that_beats_at_either_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, monkeypatch) as both:
        await both.pass_ms(2 * SESSION_TIMEOUT_MS)
        first, second = both.services

        assert [] == both.changed
        assert [(True, None), (False, "a:1")] == [(each.standing.counts, each.standing.other) for each in both.services]
        assert set(BROKERS) == first.sessions.contacts.keys()
        assert {} == second.sessions.contacts
        with pytest.raises(ApiError, match=r"this heartbeat service \(b:1\) stands by; the one at a:1 counts") as told:
            await HeartbeatService(second).DescribeSessions(DescribeSessionsRequest(), None)
        assert ErrorCode.NOT_CONTROLLER is told.value.code


def shorten_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in ((standing, ("CLAIM_EVERY_MS", "CLAIM_LAPSES_MS")), (claim, ("CLAIM_LAPSES_MS",))):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name) // 5)


async def test_one_that_is_cut_from_all_controllers_refuses_heartbeats_and_who_asked_it_is_not_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of the brokers ask it first, and the other one counts by then."""
    async with two(tmp_path, monkeypatch) as both:
        first, second = both.services
        await both.pass_ms(STEP_MS)
        monkeypatch.setattr(heartbeat_driver, "APPLIED_WITHIN_MS", 4_000)
        both.clients[0].is_cut = True
        of_nobody = BrokerHeartbeatRequest(broker_id=99, broker_epoch=1 << 40, current_metadata_offset=100)
        unknown = asyncio.ensure_future(first.heartbeat(of_nobody))
        with monkeypatch.context() as shortly:
            shorten_claims(shortly)
            await both.until(lambda: second.standing.counts)
            then = both.clients[0].refused_count
            await both.until(lambda: both.clients[0].refused_count >= then + 3)  # of which two began after the lapse
        await both.until(lambda: second.standing.counts)
        await both.pass_ms(2 * SESSION_TIMEOUT_MS)

        assert [] == both.changed
        assert set(BROKERS) == second.sessions.contacts.keys()
        assert second.standing.other is None
        with pytest.raises(ApiError, match=r"no controller .* heartbeat service \(a:1\), so another one may") as told:
            await HeartbeatService(first).DescribeSessions(DescribeSessionsRequest(), None)
        assert ErrorCode.NOT_CONTROLLER is told.value.code
        assert 1 == sum("no heartbeat is taken" in each for each in caplog.messages)
        with pytest.raises(ApiError) as refused:
            await unknown
        assert ErrorCode.NOT_CONTROLLER is refused.value.code

        both.clients[0].is_cut = False
        await both.until(lambda: first.standing.other == "b:1")


@pytest.mark.parametrize(("session_ms", "warned"), [(SESSION_LEAST_MS - 1, ["b:1"]), (SESSION_LEAST_MS, [])])
async def test_the_one_that_stands_by_warns_of_sessions_that_are_too_short_for_two(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    session_ms: int,
    warned: list[str],
) -> None:
    async with two(tmp_path, monkeypatch, session_ms=session_ms) as both:
        told = [each for each in caplog.messages if "is too short for two heartbeat services" in each]

        assert warned == [both.services[1].standing.claimant.address for _ in told]


async def test_a_controller_finds_the_session_at_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, monkeypatch) as both, AsyncExitStack() as stack:
        await both.pass_ms(STEP_MS)
        addresses = []
        for service in reversed(both.services):
            server = Server()
            server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, HeartbeatService(service))
            addresses.append(await stack.enter_async_context(listening(server)))
        lookup = SessionLookup(Client(addresses, HeartbeatStub), count=len(addresses))
        stack.push_async_callback(lookup.close)

        assert broker_epoch(1) == await lookup.valid_epoch(1)


async def test_who_is_silent_at_both_is_fenced_by_the_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, monkeypatch) as both:
        await both.pass_ms(SESSION_TIMEOUT_MS + 2 * STEP_MS, silent=SILENT)
        async with asyncio.timeout(WITHIN_S):
            while not both.changed:
                await both.pass_ms(STEP_MS, silent=SILENT)

        assert {SILENT} == set(both.changed)


async def test_the_controller_takes_no_fencing_of_a_service_that_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path, monkeypatch) as both:
        stub = both.active.stub
        fencing = ChangeBrokerStateRequest(
            broker_id=1,
            broker_epoch=broker_epoch(1),
            target=BROKER_CONTROL_STATE_FENCED,
            tracker_id="b:1",
        )
        calls = (stub.ChangeBrokerState(fencing, timeout=WITHIN_S), stub.ClaimSessions(ClaimSessionsRequest()))
        said = []
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            refusal = error_from_call(caught.value)
            said.append((refusal.code, refusal.message))

    counts = "the heartbeat service at a:1 counts; only the one that counts changes brokers' states"
    no_id = "tracker_id is empty; it is the id of the heartbeat service's process"
    assert [(ErrorCode.OPERATION_NOT_ATTEMPTED, counts), (ErrorCode.INVALID_REQUEST, no_id)] == said
