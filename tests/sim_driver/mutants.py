"""Bugs planted in the real services: each takes away one thing that the driver, or who is beside it, must do.

D1 was found by a test of real processes that failed once: it is why this simulator is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset
from quorate.raft import confirming
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.history import History
from quorate.raft.ready import Leadership, Ready
from quorate.raft.roles import Leader
from quorate.raft.turn import Turn
from quorate.storage import snapshots
from quorate.storage.disk_log import Flush
from quorate.storage.salvage import Promise
from quorate.wire.batch import read_header
from services.quorum import attendance, disk, taking, translate
from services.quorum import batches as fetched
from services.quorum.cleaner import Cleaner
from services.quorum.disk import Disk
from services.quorum.driver import AppendResult, Driver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listener import Listener
from tests.seeds.planting import Killed, Patch, first_violated
from tests.sim.mutants.base import replace_row
from tests.sim_driver.runner import run


@dataclass(frozen=True)
class Mutant:
    """`plant` replaces what is right for as long as the patch holds."""

    number: str
    what: str
    plant: Callable[[Patch], None]


def kill(mutant: Mutant, *, base: int, limit: int) -> Killed | None:
    """Seeds from `base` on until one is violated; None if none of `limit` is."""
    with Patch.context() as patch:
        mutant.plant(patch)
        return first_violated(run, base=base, limit=limit)


def _due_by_the_core(patch: Patch) -> None:
    """As it was: the listener asked the core, which knows of a turn before it is carried out."""
    right = Listener._due

    def wrong(self: Listener) -> Any:
        driver = self._driver
        carried_out, driver.high_watermark = driver.high_watermark, driver.core.log.high_watermark
        try:
            return right(self)
        finally:
            driver.high_watermark = carried_out

    patch.setattr(Listener, "_due", wrong)


def _parts_of_carrying_out(order: Callable[[Ready], tuple[Ready, ...]]) -> Callable[[Patch], None]:
    """A turn is carried out in another order."""

    def plant(patch: Patch) -> None:
        right = Driver._carry_out

        def wrong(self: Driver, ready: Ready) -> None:
            for part in order(ready):
                right(self, part)

        patch.setattr(Driver, "_carry_out", wrong)

    return plant


def _tells_first(ready: Ready) -> tuple[Ready, ...]:
    return (
        Ready(high_watermark=ready.high_watermark, leadership=ready.leadership, transitions=ready.transitions),
        replace(ready, high_watermark=None, leadership=None, transitions=()),
    )


def _persists_a_turn_late(patch: Patch) -> None:
    right = Driver._carry_out
    late: dict[Driver, Any] = {}

    def wrong(self: Driver, ready: Ready) -> None:
        if self in late:
            self.disk.persist(late.pop(self))
        if ready.election is not None:
            late[self] = ready.election
        right(self, replace(ready, election=None))

    patch.setattr(Driver, "_carry_out", wrong)


def _flush_ends_where_the_log_does(patch: Patch) -> None:
    def wrong(self: Disk, flush: Flush) -> Offset:
        return self.log.end_flush(replace(flush, end=self.log.leo))

    patch.setattr(Disk, "end_flush", wrong)


def _does_not_wait_for_the_disk(patch: Patch) -> None:
    right = Driver._flush

    def wrong(self: Driver) -> None:
        right(self)
        if self._flushing is not None:
            self.core.flushed(self._flushing.flush.end, self.now_ms)
            self._wake()

    patch.setattr(Driver, "_flush", wrong)


def _claims_twice(patch: Patch) -> None:
    patch.setattr(Driver, "claim", lambda self, epoch: True)


def _claims_too_early(patch: Patch) -> None:
    right = Listener._due

    def wrong(self: Listener) -> Any:
        leads: Leadership = self._driver.leadership
        if leads.epoch_start_offset is not None and self._told != leads and self._told.epoch_start_offset is None:
            return self._claim(leads)
        return right(self)

    patch.setattr(Listener, "_due", wrong)


def _appends_wherever(patch: Patch) -> None:
    """Every append is put where the log ends, wherever it belongs."""
    right = Driver.append

    def wrong(self: Driver, epoch: Epoch, base_offset: Offset, batches: Any) -> AppendResult:
        role = self.core.role
        at = self.core.log.leo if isinstance(role, Leader) and role.epoch == epoch else base_offset
        return right(self, epoch, at, batches)

    patch.setattr(Driver, "append", wrong)


def _refuses_what_it_has_taken(patch: Patch) -> None:
    """Asked for room when the core has the batches already."""
    right = Driver.append

    def wrong(self: Driver, epoch: Epoch, base_offset: Offset, batches: Any) -> AppendResult:
        room, self._has_room = self._has_room, lambda size: True  # type: ignore[method-assign]
        try:
            result = right(self, epoch, base_offset, batches)
        finally:
            self._has_room = room  # type: ignore[method-assign]
        if result.error is ErrorCode.NONE and not self._has_room(sum(sum(map(len, values)) for values in batches)):
            return AppendResult(error=ErrorCode.KAFKA_STORAGE_ERROR, end_offset=base_offset)
        return result

    patch.setattr(Driver, "append", wrong)


def _stays_without_its_controller(patch: Patch) -> None:
    patch.setattr(attendance.Attendance, "run", _forever)
    patch.setattr(Driver, "resign", lambda self, epoch: None)


async def _forever(self: object) -> None:
    """Nothing."""


def _forgets_its_promise(patch: Patch) -> None:
    patch.setattr(Promise, "read", lambda self: None)


def _votes_all_the_same(patch: Patch) -> None:
    right = Raft.__init__

    def wrong(self: Raft, **named: Any) -> None:
        right(self, **{**named, "recover_to": None})

    patch.setattr(Raft, "__init__", wrong)


def _takes_any_snapshot(patch: Patch) -> None:
    patch.setattr(taking, "refusal", lambda known, snapshot: None)


def _cleans_at_once(patch: Patch) -> None:
    right = Cleaner.clean

    def wrong(self: Cleaner) -> None:
        with Patch.context() as inner:
            inner.setattr(self._driver, "settle", _nothing)
            right(self)

    patch.setattr(Cleaner, "clean", wrong)


def _begins_a_snapshot_at_once(patch: Patch) -> None:
    right = taking._begin

    def wrong(driver: Driver, request: CreateSnapshotRequest) -> Any:
        with Patch.context() as inner:
            inner.setattr(driver, "settle", _nothing)
            return right(driver, request)

    patch.setattr(taking, "_begin", wrong)


def _nothing() -> None:
    """Is done."""


def _is_sure_of_itself(patch: Patch) -> None:
    """It leads as long as it believes so."""
    right = confirming.confirm

    def wrong(turn: Turn, role: Leader, request: raft.ConfirmLeadershipRequest) -> None:
        if request.epoch == role.epoch:
            turn.answer(request, raft.ConfirmLeadershipResponse(epoch=role.epoch, leader_id=role.leader_id))
        else:
            right(turn, role, request)

    replace_row(patch, raft.ConfirmLeadershipRequest, right, wrong)


def _goes_by_the_time_of_day(patch: Patch) -> None:
    patch.setattr(Driver, "now_ms", property(lambda self: self.wall_ms))


def _answers_before_the_commit(patch: Patch) -> None:
    right = translate.add_request

    def wrong(request: Any, reply_to: object) -> raft.AddRaftVoterRequest:
        return replace(right(request, reply_to), ack_when_committed=False)

    patch.setattr(translate, "add_request", wrong)


def _forgets_the_voters(patch: Patch) -> None:
    patch.setattr(disk, "voters_of", lambda data, position, header: None)


def _names_the_voters_of_now(patch: Patch) -> None:
    patch.setattr(History, "before", lambda self, offset: self.latest)


def _goes_by_the_configuration(patch: Patch) -> None:
    right = NodeEndpoints.__getitem__

    def wrong(self: NodeEndpoints, node_id: NodeId) -> Any:
        return self._configured[node_id] if node_id in self._configured else right(self, node_id)

    patch.setattr(NodeEndpoints, "__getitem__", wrong)


def _takes_bytes_as_they_come(module: Any) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        patch.setattr(module, "check_batch", lambda data, position=0: read_header(data, position))

    return plant


MUTANTS: Final = (
    Mutant("D1", "the listener goes by what the core knows, not by what was carried out", _due_by_the_core),
    Mutant("D2", "quorum-state is written in the turn after", _persists_a_turn_late),
    Mutant("D3", "who waits is told of a turn before it writes", _parts_of_carrying_out(_tells_first)),
    Mutant("D5", "the end of a flush is that of the log", _flush_ends_where_the_log_does),
    Mutant("D6", "a flush counts when it begins", _does_not_wait_for_the_disk),
    Mutant("D7", "an epoch has as many active controllers as claim it", _claims_twice),
    Mutant("D8", "a controller is active before it has heard of all before", _claims_too_early),
    Mutant("D9", "nobody settles before the log is cleaned", _cleans_at_once),
    Mutant("D10", "an append goes to the end of the log, wherever it belongs", _appends_wherever),
    Mutant("D12", "a leader without its controller stays", _stays_without_its_controller),
    Mutant("D13", "what damage took is not kept in mind", _forgets_its_promise),
    Mutant("D14", "a snapshot is taken at whatever offset", _takes_any_snapshot),
    Mutant("D15", "what damage took is known, and the node votes all the same", _votes_all_the_same),
    Mutant("D18", "deadlines go by the time of day", _goes_by_the_time_of_day),
    Mutant("D19", "a voter is said to be added once that is written", _answers_before_the_commit),
    Mutant("D20", "a start forgets the voters in the log", _forgets_the_voters),
    Mutant("D21", "a snapshot names the voters of now, not of its offset", _names_the_voters_of_now),
    Mutant("D23", "what was fetched is not checked", _takes_bytes_as_they_come(fetched)),
)

UNMET: Final = (
    Mutant("D24", "a snapshot that was fetched is not checked", _takes_bytes_as_they_come(snapshots)),
    Mutant("D11", "an append that the core has taken is refused", _refuses_what_it_has_taken),
    Mutant("D16", "nobody settles before a snapshot is taken", _begins_a_snapshot_at_once),
    Mutant("D17", "that a leader still leads it says without asking anybody", _is_sure_of_itself),
    Mutant(
        "D22",
        "a voter is looked for where it was configured, not where the log has it",
        _goes_by_the_configuration,
    ),
)
"""They take a moment, or a way, that no seed has come to yet."""
