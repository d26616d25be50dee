"""The heartbeat service behind its doors: over the log of a real quorum node, beside a scripted controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kraft import Message
from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.controller_pb2 import BROKER_CONTROL_STATE_CONTROLLED_SHUTDOWN, BROKER_CONTROL_STATE_FENCED
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub, add_HeartbeatServicer_to_server
from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import SESSION_TIMEOUT_MS, Claimant, Sessions
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import NodeId, Offset
from quorate.raft.history import History
from quorate.raft.voters import VoterSet
from quorate.records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
    encode_record,
)
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from services.heartbeat import driver as heartbeat_driver
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.servicer import HeartbeatService
from services.quorum import driver as quorum_driver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from tests.bench.synthetic import Shape, cluster
from tests.services.clocks import MovedClock
from tests.services.nodes import committed, sole_leader
from tests.services.scripted import WITHIN_S, ScriptedController, controller_at_work, listening

SHAPE = Shape(partitions=6, brokers=3)
ALL = {0, 1, 2}
LEAVING = 1
HEARD = 2
STEP_MS = 100
SILENT_MS = SESSION_TIMEOUT_MS + STEP_MS


class Tracking:
    """The tracker, the log that it follows, the controller that it asks, and a client."""

    def __init__(
        self,
        tracker: HeartbeatDriver,
        quorum: quorum_driver.QuorumDriver,
        controller: ScriptedController,
        clock: MovedClock,
        stub: HeartbeatStub,
    ) -> None:
        self.tracker = tracker
        self.quorum = quorum
        self.controller = controller
        self.clock = clock
        self.stub = stub

    async def write(self, *records: Message) -> Offset:
        """One batch, committed, and applied by the tracker; the answer is the end of the log."""
        values = [encode_record(record, record_version(record, LATEST)) for record in records]
        result = self.quorum.append(self.quorum.core.role.epoch, self.quorum.core.log.leo, [values])
        assert result.error == 0, result
        await committed(self.quorum, result.end_offset)
        async with asyncio.timeout(WITHIN_S):
            await self.tracker.replica.reached(result.end_offset)
        return result.end_offset

    async def seen(self) -> None:
        """Records that were written before have been seen by the loop that watches the log."""
        await self.write(NoOpRecord())
        await self.write(NoOpRecord())

    def epoch(self, broker_id: NodeId) -> int:
        broker = self.tracker.replica.state.brokers.get(broker_id)
        assert broker is not None
        return broker.epoch

    async def pass_ms(self, ms: int, *, heard: NodeId | None = None) -> None:
        """Time passes for a process that runs; meanwhile the heartbeats of one broker come."""
        for _ in range(ms // STEP_MS):
            self.clock.now_ms += STEP_MS
            assert self.tracker.now_ms <= self.clock.now_ms
            if heard is not None:
                await self.beat(heard, offset=self.tracker.replica.applied)

    async def valid(self) -> set[NodeId]:
        """The brokers whose sessions are valid, by the answer to a controller."""
        found = await self.stub.DescribeSessions(DescribeSessionsRequest(), timeout=WITHIN_S)
        return {each.broker_id for each in found.sessions if each.valid}

    async def fenced_after_ms(self, *, heard: NodeId) -> tuple[NodeId, int]:
        """The broker that is fenced first while one other is heard, and how long that takes."""
        begun_ms, asked = self.clock.now_ms, asyncio.ensure_future(self.controller.asked())
        while not asked.done():
            await self.pass_ms(STEP_MS, heard=heard)
        request, answer = await asked
        answer.set_result(0)
        assert BROKER_CONTROL_STATE_FENCED == request.target
        return request.broker_id, self.clock.now_ms - begun_ms

    async def beat(self, broker_id: NodeId, *, offset: Offset, leaves: bool = False) -> BrokerHeartbeatResponse:
        """One heartbeat at the door."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epoch(broker_id),
            current_metadata_offset=offset,
            want_shut_down=leaves,
        )
        answer: BrokerHeartbeatResponse = await self.stub.BrokerHeartbeat(request, timeout=WITHIN_S)
        return answer


@asynccontextmanager
async def tracking(directory: Path, records: Iterable[Message]) -> AsyncIterator[Tracking]:
    """With these records in the log, and every broker in them watched since time 0."""
    quorum_server, tracker_server, clock = Server(), Server(), MovedClock()
    async with sole_leader(directory) as quorum, controller_at_work() as (controller, address):
        peer = PeerServicer(quorum, NodeEndpoints((), (), History(VoterSet.of(1))), cluster_id="c", node_id=1)
        quorum_server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
        async with listening(quorum_server) as quorum_address:
            reader, controllers = LogReader([quorum_address], open_channel), Client([address], ControllerStub)
            replica = Replica(reader, clock, OFF)
            claimant = Claimant(id="t", address="t:1")
            tracker = HeartbeatDriver(replica, Sessions(SESSION_TIMEOUT_MS), controllers, clock, claimant)
            tracker_server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, HeartbeatService(tracker))
            running = asyncio.ensure_future(tracker.run())
            async with listening(tracker_server) as own, open_channel(own) as client:
                tracked = Tracking(tracker, quorum, controller, clock, HeartbeatStub(client))
                await asyncio.wait_for(tracker.standing.told.wait(), WITHIN_S)
                await tracked.write(*records)
                async with asyncio.timeout(WITHIN_S):
                    async for _ in replica.changes():
                        if tracker.sessions.watched == ALL:
                            break
                        await tracked.write(BrokerRegistrationChangeRecord(0, tracked.epoch(0)))
                yield tracked
            running.cancel()
            await asyncio.wait([running])
            await controllers.close()
            await reader.close()


async def test_who_is_fenced_is_watched_no_more(tmp_path: Path) -> None:
    """Two are silent, and the lowest id is named first: of the fenced one nothing is asked."""
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.write(BrokerRegistrationChangeRecord(0, tracked.epoch(0), fenced=1))
        await tracked.write(BrokerRegistrationChangeRecord(2, tracked.epoch(2)))  # what was before is seen by now
        await tracked.pass_ms(SILENT_MS, heard=HEARD)
        request, answer = await tracked.controller.asked()

        assert (1, BROKER_CONTROL_STATE_FENCED) == (request.broker_id, request.target)
        answer.set_result(0)


async def test_nothing_is_kept_of_who_is_unregistered(tmp_path: Path) -> None:
    """An operator unregisters a broker that is gone: fenced for long, so that its session is watched no more."""
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.beat(1, offset=await tracked.write(BrokerRegistrationChangeRecord(2, tracked.epoch(2))))
        await tracked.write(BrokerRegistrationChangeRecord(1, tracked.epoch(1), fenced=1))
        await tracked.seen()
        sessions = tracked.tracker.sessions
        assert sessions.contacts.keys() == {1}

        await tracked.write(UnregisterBrokerRecord(1, tracked.epoch(1)))
        await tracked.seen()

        assert ALL - {1} == sessions.known == sessions.watched
        assert not sessions.contacts


async def test_a_session_that_has_ended_begins_anew_while_its_broker_is_unfenced(tmp_path: Path) -> None:
    """Also with a record that is about no broker."""
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.seen()
        tracked.tracker.sessions.end(LEAVING)
        await tracked.seen()

        assert ALL == tracked.tracker.sessions.watched


async def test_who_was_not_fenced_is_asked_for_again(tmp_path: Path) -> None:
    """The refusal is final for the call, as when a broker has just registered anew; the tracker looks again."""
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.pass_ms(SILENT_MS, heard=HEARD)
        first, answer = await tracked.controller.asked()
        answer.set_exception(ApiError(ErrorCode.STALE_BROKER_EPOCH, "it has registered anew"))
        second, answer = await tracked.controller.asked()

        assert (0, 0) == (first.broker_id, second.broker_id)
        answer.set_result(0)


async def test_a_rack_is_fenced_without_a_pause_after_each_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.pass_ms(SILENT_MS, heard=HEARD)
        fenced = []
        for _ in ALL - {HEARD}:
            request, answer = await tracked.controller.asked()
            monkeypatch.setattr(heartbeat_driver, "CHECK_S", 1_000)
            fenced.append(request.broker_id)
            change = BrokerRegistrationChangeRecord(request.broker_id, tracked.epoch(request.broker_id), fenced=1)
            answer.set_result(await tracked.write(change))

        assert sorted(ALL - {HEARD}) == fenced


async def test_the_time_in_which_the_service_did_not_run_is_nobodys_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after SIGSTOP: what brokers sent meanwhile is still to be read. They have what was left of their sessions."""
    monkeypatch.setattr(heartbeat_driver, "CHECK_S", 0)
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.pass_ms(5_000, heard=HEARD)
        tracked.clock.now_ms += 30_000
        valid = await tracked.valid()
        fenced, after_ms = await tracked.fenced_after_ms(heard=HEARD)

        assert ALL == valid
        assert (0, True) == (fenced, after_ms >= SESSION_TIMEOUT_MS - 5_000 - STEP_MS)


async def test_the_silence_of_all_fences_nobody_and_whoever_breaks_it_gives_each_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All gateways were away: in Kafka the listener and who counts are one process."""
    monkeypatch.setattr(heartbeat_driver, "CHECK_S", 0)
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        await tracked.pass_ms(60_000)
        may_register_anew = await tracked.valid()
        await tracked.beat(HEARD, offset=tracked.tracker.replica.applied)
        valid = await tracked.valid()
        fenced, after_ms = await tracked.fenced_after_ms(heard=HEARD)

        assert set() == may_register_anew
        assert ALL == valid
        assert (0, True) == (fenced, after_ms >= SESSION_TIMEOUT_MS)


@pytest.mark.parametrize(("behind", "goes"), [(1, False), (0, True)], ids=["one record behind", "caught up"])
async def test_who_shuts_down_waits_for_the_last_record_of_its_shutdown_and_no_more(
    tmp_path: Path, behind: int, goes: bool
) -> None:
    """Until all active brokers have applied it, some may hold the one that leaves for a leader. KIP-631."""
    async with tracking(tmp_path, cluster(SHAPE)) as tracked:
        leaving = asyncio.ensure_future(tracked.beat(LEAVING, offset=0, leaves=True))
        request, answer = await tracked.controller.asked()

        assert BROKER_CONTROL_STATE_CONTROLLED_SHUTDOWN == request.target
        end = await tracked.write(
            BrokerRegistrationChangeRecord(LEAVING, tracked.epoch(LEAVING), in_controlled_shutdown=1),
            *(
                PartitionChangeRecord(found.partition_id, found.topic.id, leader=0)
                for found in tracked.tracker.replica.state.topics.led_by(LEAVING)
            ),
        )
        answer.set_result(end)
        assert not (await leaving).should_shut_down
        await tracked.write(BrokerRegistrationChangeRecord(0, tracked.epoch(0)))  # later ones are of no concern
        for broker_id in ALL - {LEAVING}:
            await tracked.beat(broker_id, offset=end - 1 - behind)
        asked = asyncio.ensure_future(tracked.beat(LEAVING, offset=end - 1, leaves=True))
        if goes:
            _, answer = await tracked.controller.asked()
            answer.set_result(end)

        assert goes is (await asked).should_shut_down
