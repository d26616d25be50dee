"""Bugs planted in the real services: each takes away one thing that the driver, or who is beside it, must do.

D1 was found by a test of real processes that failed once: it is why this simulator is here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import matrix, read_index, walking
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.history import History
from quorate.raft.ready import Leadership, Ready
from quorate.raft.roles import Leader
from quorate.raft.step_context import StepContext
from quorate.raft.voters import Voter, VoterSet
from quorate.records import VotersRecord
from quorate.storage import snapshots
from quorate.storage.disk_log import Flush
from quorate.storage.last_known import LastKnownFile
from quorate.storage.salvage import PromiseFile
from quorate.storage.segment import Segment
from quorate.wire.batch import read_header
from services.quorum import batches as fetched
from services.quorum import controller_presence, disk, servicer, snapshot_upload, translate
from services.quorum.cleaner import Cleaner
from services.quorum.controller_events import ControllerEvents
from services.quorum.disk import Disk
from services.quorum.driver import AppendResult, QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from tests.seeds.planting import Mutant, Patch
from tests.sim.mutants.base import replace_row
from tests.sim_driver.runner import CLEANING, LYING, MOVING, WALKING, WIPING


def _due_by_the_core(patch: Patch) -> None:
    """As it was: the listener asked the core, which knows of a turn before it is carried out."""
    right = ControllerEvents._due

    def wrong(self: ControllerEvents) -> Any:
        driver = self._driver
        carried_out, driver.high_watermark = driver.high_watermark, driver.core.log.high_watermark
        try:
            return right(self)
        finally:
            driver.high_watermark = carried_out

    patch.setattr(ControllerEvents, "_due", wrong)


def _parts_of_carrying_out(order: Callable[[Ready], tuple[Ready, ...]]) -> Callable[[Patch], None]:
    """A turn is carried out in another order."""

    def plant(patch: Patch) -> None:
        right = QuorumDriver._carry_out

        def wrong(self: QuorumDriver, ready: Ready) -> None:
            for part in order(ready):
                right(self, part)

        patch.setattr(QuorumDriver, "_carry_out", wrong)

    return plant


def _tells_first(ready: Ready) -> tuple[Ready, ...]:
    return (
        Ready(high_watermark=ready.high_watermark, leadership=ready.leadership, transitions=ready.transitions),
        msgspec.structs.replace(ready, high_watermark=None, leadership=None, transitions=()),
    )


def _persists_a_turn_late(patch: Patch) -> None:
    right = QuorumDriver._carry_out
    late: dict[QuorumDriver, Any] = {}

    def wrong(self: QuorumDriver, ready: Ready) -> None:
        if self in late:
            self.disk.persist(late.pop(self))
        if ready.election is not None:
            late[self] = ready.election
        right(self, msgspec.structs.replace(ready, election=None))

    patch.setattr(QuorumDriver, "_carry_out", wrong)


def _flush_ends_where_the_log_does(patch: Patch) -> None:
    def wrong(self: Disk, flush: Flush) -> Offset:
        return self.log.end_flush(replace(flush, end=self.log.leo))

    patch.setattr(Disk, "end_flush", wrong)


def _does_not_wait_for_the_disk(patch: Patch) -> None:
    right = QuorumDriver._flush

    def wrong(self: QuorumDriver) -> None:
        right(self)
        if self._flushing is not None:
            self.core.flushed(self._flushing.flush.end, self.now_ms)
            self._wake()

    patch.setattr(QuorumDriver, "_flush", wrong)


def _claims_twice(patch: Patch) -> None:
    patch.setattr(QuorumDriver, "claim", lambda self, epoch: True)


def _claims_too_early(patch: Patch) -> None:
    right = ControllerEvents._due

    def wrong(self: ControllerEvents) -> Any:
        leads: Leadership = self._driver.leadership
        if leads.epoch_start_offset is not None and self._told != leads and self._told.epoch_start_offset is None:
            return self._claim(leads)
        return right(self)

    patch.setattr(ControllerEvents, "_due", wrong)


def _appends_wherever(patch: Patch) -> None:
    """Every append is put where the log ends, wherever it belongs."""
    right = QuorumDriver.append

    def wrong(self: QuorumDriver, epoch: Epoch, base_offset: Offset, batches: Any) -> AppendResult:
        role = self.core.role
        at = self.core.log.leo if isinstance(role, Leader) and role.epoch == epoch else base_offset
        return right(self, epoch, at, batches)

    patch.setattr(QuorumDriver, "append", wrong)


def _refuses_what_it_has_taken(patch: Patch) -> None:
    """Asked for room when the core has the batches already."""
    right = QuorumDriver.append

    def wrong(self: QuorumDriver, epoch: Epoch, base_offset: Offset, batches: Any) -> AppendResult:
        room, self._has_room = self._has_room, lambda size: True  # type: ignore[method-assign]
        try:
            result = right(self, epoch, base_offset, batches)
        finally:
            self._has_room = room  # type: ignore[method-assign]
        if result.error is ErrorCode.NONE and not self._has_room(sum(sum(map(len, values)) for values in batches)):
            return AppendResult(error=ErrorCode.KAFKA_STORAGE_ERROR, end_offset=base_offset)
        return result

    patch.setattr(QuorumDriver, "append", wrong)


def _stays_without_its_controller(patch: Patch) -> None:
    patch.setattr(controller_presence.ControllerPresence, "_look", lambda self: None)
    patch.setattr(QuorumDriver, "resign", lambda self, epoch: None)


def _waits_for_a_hung_controller(patch: Patch) -> None:
    """As it was: a controller is away once its stream has broken."""
    patch.setattr(controller_presence.ControllerPresence, "_is_silent", lambda self, session: False)


def _looks_for_silence_only_when_told(patch: Patch) -> None:
    async def run(self: object) -> None:
        """Nothing."""

    patch.setattr(controller_presence.ControllerPresence, "run", run)


def _forgets_its_promise(patch: Patch) -> None:
    patch.setattr(PromiseFile, "read", lambda self: None)


def _knows_nothing_of_before(patch: Patch) -> None:
    """As it was: an older copy of the partition directory is taken for what was left."""
    patch.setattr(LastKnownFile, "read", lambda self: None)


def _votes_all_the_same(patch: Patch) -> None:
    right = Raft.__init__

    def wrong(self: Raft, **named: Any) -> None:
        right(self, **{**named, "recover_to": None})

    patch.setattr(Raft, "__init__", wrong)


def _takes_any_snapshot(patch: Patch) -> None:
    patch.setattr(snapshot_upload, "refusal", lambda known, snapshot: None)


def _cleans_at_once(patch: Patch) -> None:
    right = Cleaner.clean

    def wrong(self: Cleaner) -> None:
        with Patch.context() as inner:
            inner.setattr(self._driver, "settle", _nothing)
            right(self)

    patch.setattr(Cleaner, "clean", wrong)


def _begins_a_snapshot_at_once(patch: Patch) -> None:
    right = snapshot_upload._begin

    def wrong(driver: QuorumDriver, request: CreateSnapshotRequest) -> Any:
        with Patch.context() as inner:
            inner.setattr(driver, "settle", _nothing)
            return right(driver, request)

    patch.setattr(snapshot_upload, "_begin", wrong)


def _nothing() -> None:
    """Is done."""


def _is_sure_of_itself(patch: Patch) -> None:
    """It leads as long as it believes so."""
    right = read_index.confirm

    def wrong(turn: StepContext, role: Leader, request: raft.ConfirmLeadershipRequest) -> None:
        if request.epoch == role.epoch:
            turn.answer(request, raft.ConfirmLeadershipResponse(epoch=role.epoch, leader_id=role.leader_id))
        else:
            right(turn, role, request)

    replace_row(patch, raft.ConfirmLeadershipRequest, right, wrong)


def _goes_by_the_time_of_day(patch: Patch) -> None:
    patch.setattr(QuorumDriver, "now_ms", property(lambda self: self.wall_ms))


def _answers_before_the_commit(patch: Patch) -> None:
    right = translate.add_request

    def wrong(request: Any, reply_to: object) -> raft.AddRaftVoterRequest:
        return msgspec.structs.replace(right(request, reply_to), ack_when_committed=False)

    patch.setattr(translate, "add_request", wrong)


def _forgets_the_voters(patch: Patch) -> None:
    patch.setattr(disk, "voters_of", lambda data, position, header: None)


def _names_the_voters_of_now(patch: Patch) -> None:
    patch.setattr(History, "before", lambda self, offset: self.latest)


def _goes_by_the_configuration(patch: Patch) -> None:
    right = NodeEndpoints.peer

    def wrong(self: NodeEndpoints, node_id: NodeId) -> Any:
        return self._configured.get(node_id) or right(self, node_id)

    patch.setattr(NodeEndpoints, "peer", wrong)


def _removes_what_is_not_there(patch: Patch) -> None:
    """An OSError of our own making, not the disk's."""
    right = Disk.start_at

    def wrong(self: Disk, snapshot: OffsetAndEpoch) -> Any:
        (self.log.directory / "not there").unlink()
        return right(self, snapshot)

    patch.setattr(Disk, "start_at", wrong)


def _loses_the_target_with_the_leader(patch: Patch) -> None:
    """A leader walks to what was asked for in its own epoch."""

    def wrong(turn: StepContext, role: Leader) -> None:
        offset = turn.log.voters.latest_offset
        if offset is not None and offset > role.epoch_start_offset:
            walking.walk(turn, role)

    pursuits = tuple(wrong if each is walking.walk else each for each in matrix.PURSUITS[Leader])
    patch.setitem(matrix.PURSUITS, Leader, pursuits)


def _drops_the_target_at_a_step(patch: Patch) -> None:
    patch.setattr(VoterSet, "_changed", lambda self, *voters: VoterSet(voters))


def _takes_bytes_as_they_come(module: Any) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        patch.setattr(module, "check_batch", lambda data, position=0: read_header(data, position))

    return plant


def _keeps_the_number_of_a_closed_file(patch: Patch) -> None:
    def close(self: Segment) -> None:
        os.close(self._log)

    patch.setattr(Segment, "close", close)


def _believes_what_voters_it_is_told(patch: Patch) -> None:
    def voters(record: VotersRecord) -> VoterSet:
        return VoterSet(tuple(Voter(key=ReplicaKey(each.voter_id, each.voter_directory_id)) for each in record.voters))

    patch.setattr(fetched, "voter_set", voters)


def _stops_fetching_last(patch: Patch) -> None:
    """As it was: the fetch to look for a leader, which was just sent, is called off with the old leader's."""
    right = QuorumDriver._report

    def wrong(self: QuorumDriver, ready: Ready) -> None:
        right(self, ready)
        if ready.leadership is not None and self._peers is not None:
            self._peers.stop_fetching(unless_from=ready.leadership.leader_id)

    patch.setattr(QuorumDriver, "_report", wrong)


def _forgets_where_a_leader_listens(patch: Patch) -> None:
    """As it was: news of a leader that was meant for this id's earlier disk has no address."""
    patch.setattr(servicer, "FOLLOWED", (ErrorCode.NONE,))


MUTANTS: Final = (
    Mutant("D1", "the listener goes by what the core knows, not by what was carried out", _due_by_the_core),
    Mutant("D2", "quorum-state is written in the turn after", _persists_a_turn_late),
    Mutant("D3", "callers get their answers from a turn before it writes", _parts_of_carrying_out(_tells_first)),
    Mutant("D5", "the end of a flush is that of the log", _flush_ends_where_the_log_does),
    Mutant("D6", "a flush counts when it begins", _does_not_wait_for_the_disk),
    Mutant("D7", "an epoch has as many active controllers as claim it", _claims_twice),
    Mutant("D8", "a controller is active before it has heard of all before", _claims_too_early),
    Mutant("D9", "nobody settles before the log is cleaned", _cleans_at_once),
    Mutant("D10", "an append goes to the end of the log, wherever it belongs", _appends_wherever),
    Mutant("D12", "a leader without its controller stays", _stays_without_its_controller),
    Mutant("D45", "a controller that says nothing is waited for", _waits_for_a_hung_controller),
    Mutant("D46", "silence is seen only when something is heard", _looks_for_silence_only_when_told),
    Mutant("D13", "what damage took is not kept in mind", _forgets_its_promise),
    Mutant("D51", "what comes back as an older copy is taken for what was left", _knows_nothing_of_before),
    Mutant("D14", "a snapshot is taken at whatever offset", _takes_any_snapshot),
    Mutant("D15", "what damage took is known, and the node votes all the same", _votes_all_the_same),
    Mutant("D18", "deadlines go by the time of day", _goes_by_the_time_of_day),
    Mutant("D19", "a voter is said to be added once that is written", _answers_before_the_commit),
    Mutant("D20", "a start forgets the voters in the log", _forgets_the_voters),
    Mutant("D21", "a snapshot names the voters of now, not of its offset", _names_the_voters_of_now),
    Mutant("D23", "what was fetched is not checked", _takes_bytes_as_they_come(fetched)),
    Mutant("D24", "a snapshot that was fetched is not checked", _takes_bytes_as_they_come(snapshots)),
    Mutant("D11", "an append that the core has taken is refused", _refuses_what_it_has_taken),
    Mutant("D16", "nobody settles before a snapshot is taken", _begins_a_snapshot_at_once),
    Mutant("D17", "that a leader still leads it says without asking anybody", _is_sure_of_itself),
    Mutant(
        "D22",
        "a voter is looked for where it was configured, not where the log has it",
        _goes_by_the_configuration,
        profile=MOVING,
    ),
    Mutant("D27", "voters are believed, whatever they are", _believes_what_voters_it_is_told, profile=LYING),
    Mutant(
        "D26", "a removed segment is flushed by its descriptor", _keeps_the_number_of_a_closed_file, profile=CLEANING
    ),
    Mutant("D47", "the target is lost when leadership changes", _loses_the_target_with_the_leader, profile=WALKING),
    Mutant("D48", "a change of the voters drops their target", _drops_the_target_at_a_step, profile=WALKING),
    Mutant("D49", "the next role's fetch is called off with the last one's", _stops_fetching_last),
    Mutant(
        "D50",
        "a leader is named without its address if the earlier disk is meant",
        _forgets_where_a_leader_listens,
        profile=WIPING,
    ),
    Mutant("D25", "a segment that is to go is looked for where it is not", _removes_what_is_not_there),
)
