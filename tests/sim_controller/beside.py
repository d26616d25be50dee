"""What a quorum node tells the controller beside it, and takes from it: as services/quorum's listener and servicer do.

Events are read off the present when the stream has room; appends come in order, are numbered, and after a refusal
nothing of the same attempt is taken. Both streams take their time, and may break.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraft.service.quorum_pb2 import AppendRequest
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.raft import BatchInfo, LogView, Raft
from quorate.raft.log import Read
from quorate.raft.ready import Leadership
from quorate.raft.roles import Leader
from services.quorum.appends import joined
from tests.sim.content import Cell, Snapshot, cells_of, image_after
from tests.sim.listener import UNTOLD, Listener
from tests.sim_controller.cells import text_of
from tests.sim_controller.controller import Controller

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim_controller.world import ControllerWorld

NONE_YET: Final = -1
EVENT_BYTES_MAX: Final = 2_000
"""Small, so that a long log makes many events."""


@dataclass(eq=False)
class Pipe:
    """One stream between two processes: in order, each piece in its own time; cut, nothing more arrives."""

    world: ControllerWorld
    is_there: Callable[[], bool]
    """Do both processes still run?"""
    until_ms: int = 0
    is_cut: bool = False

    def send(self, arrive: Callable[[], None]) -> None:
        now_ms = self.world.timeline.now_ms
        self.until_ms = max(self.until_ms, now_ms + self.world.stream_ms())
        self.world.at(self.until_ms - now_ms, lambda: None if self.is_cut or not self.is_there() else arrive())


class Beside(Listener):
    """One node's end of the contract. `next` and `image` are what its controller has heard."""

    def __init__(self, node: Node, world: ControllerWorld) -> None:
        super().__init__(node)
        self._world = world
        self._claimed: Epoch = NONE_YET
        self._attempt = 0
        self.controller = Controller(self, node, world)
        self._begin_streams()

    def _begin_streams(self) -> None:
        self._read_to = self.controller.engine.next_offset
        self._committed = NONE_YET
        self._void_attempt = NONE_YET
        self._active_epoch = NONE_YET
        self.told = UNTOLD
        self._events, self._appends, self._answers = (Pipe(self._world, self._is_there) for _ in range(3))

    def _is_there(self) -> bool:
        return self._node.raft is not None and self._node.listener is self

    # Listen.

    def poke(self) -> None:
        """Something may be due."""
        raft = self._node.raft
        assert raft is not None
        is_behind = self._read_to < raft.log.high_watermark or self._committed < raft.log.high_watermark
        if self._events.is_cut or self._is_poked or not (is_behind or self.told != self._node.leadership):
            return
        self._is_poked = True
        life = self._node.life
        self._world.at(self._world.apply_ms(), lambda: self._wake(life))

    def _wake(self, life: int) -> None:
        node = self._node
        if node.raft is None or node.life != life or node.listener is not self:
            return
        self._is_poked = False
        self._world.history.catch_up()
        while not self._events.is_cut and self._tell_next(node.raft):
            pass

    def _tell_next(self, raft: Raft) -> bool:
        """One event, if any is due: in the order of services/quorum/controller_events.py."""
        leadership, log = self._node.leadership, raft.log
        leads_here = self.told.epoch_start_offset is not None and self.told == leadership
        if self.told.epoch_start_offset is not None and leadership != self.told:
            return self._renounce(leadership)
        if leads_here:
            return self._commit(min(log.high_watermark, self._node.disk.log.leo))
        if self._read_to < self._node.disk.log.floor.offset:
            return self._snapshot()
        if self._read_to < min(log.high_watermark, self._node.disk.log.leo):
            return self._batches(log.high_watermark)
        if leadership == self.told:
            return False
        if leadership.epoch_start_offset is None:
            return self._renounce(leadership)
        return self.is_due(leadership) and self._claim(raft, leadership)

    def is_due(self, leadership: Leadership) -> bool:
        return leadership.epoch_start_offset is not None and self._read_to > leadership.epoch_start_offset

    def _claim(self, raft: Raft, leadership: Leadership) -> bool:
        if not isinstance(raft.role, Leader) or raft.role.epoch != leadership.epoch:
            return False  # the turn that has deposed it is not over
        if leadership.epoch <= self._claimed:
            return False  # one was active in this epoch already
        self._claimed = self._active_epoch = leadership.epoch
        self.told, self._committed = leadership, self._read_to
        epoch, end = leadership.epoch, raft.log.leo

        def hear() -> None:
            self._world.checker.after_told(self._node, leadership)
            self.controller.lead(self._node.id, epoch, end)

        self._events.send(hear)
        return True

    def _renounce(self, leadership: Leadership) -> bool:
        leads_itself = leadership.epoch_start_offset is not None
        self.told = Leadership(epoch=leadership.epoch, leader_id=None) if leads_itself else leadership
        leader_id = NONE_YET if leads_itself or leadership.leader_id is None else leadership.leader_id
        self._events.send(lambda: self.controller.lead(leader_id, leadership.epoch, NONE_YET))
        return True

    def _commit(self, high_watermark: Offset) -> bool:
        if high_watermark <= self._committed:
            return False
        start, cells = self._read_to, self._node.disk.log.between(self._read_to, high_watermark)
        self._committed = self._read_to = high_watermark

        def hear() -> None:
            self._advance(start, cells)
            self.controller.commit(high_watermark)

        self._events.send(hear)
        return True

    def _batches(self, high_watermark: Offset) -> bool:
        read = self._node.disk.log.read(Read(offset=self._read_to, max_bytes=EVENT_BYTES_MAX))
        batches = [batch for batch in read if batch.end_offset <= high_watermark]
        assert batches, (self._read_to, high_watermark)
        assert batches[0].base_offset == self._read_to, (batches[0], self._read_to)
        self._read_to = batches[-1].end_offset
        events = self._events

        def hear() -> None:
            for batch in batches:
                if not events.is_cut:  # by the one before
                    self._advance(batch.base_offset, cells_of(batch))
                    self.controller.apply(batch)

        self._events.send(hear)
        return True

    def _snapshot(self) -> bool:
        snapshot = self._node.disk.snapshot(self._node.disk.log.floor)
        self._read_to = snapshot.id.offset

        def hear() -> None:
            self.next, self.image = snapshot.id.offset, snapshot.image
            self._world.checker.after_load(self._node, snapshot)
            self.controller.load(snapshot)

        self._events.send(hear)
        return True

    def _advance(self, start: Offset, cells: list[Cell]) -> None:
        """The controller has heard of `cells`: the events that it must get, and their order, are judged (I-23)."""
        if start + len(cells) <= self.next:
            return
        self.next, self.image = start + len(cells), image_after(self.image, cells)
        self._world.checker.after_apply(self._node, start, cells)

    # Append.

    def append(self, request: AppendRequest) -> None:
        """A message of the controller's, on its way."""
        self._appends.send(lambda: self._node.hear(lambda raft: self._take(raft, request)))

    def _take(self, raft: Raft, request: AppendRequest) -> None:
        if request.attempt == self._void_attempt:
            error, end = ErrorCode.OFFSET_OUT_OF_RANGE, raft.log.leo
        else:
            error, end = self._write(raft, request)
        if error is not ErrorCode.NONE:
            self._void_attempt = request.attempt
        self._answers.send(lambda: self.controller.hear_appended(request.correlation_id, error, end))

    def _write(self, raft: Raft, request: AppendRequest) -> tuple[ErrorCode, Offset]:
        """As services/quorum/driver.py: room first, then the core's word."""
        if self._node.disk.is_full or self._world.is_without_room():
            self._world.fired("S-18" if self._node.disk.is_full else "S-27")
            return ErrorCode.KAFKA_STORAGE_ERROR, raft.log.leo
        base, made = request.base_offset, []
        for values in joined(request):
            texts = tuple(map(text_of, values))
            size = 60 + sum(map(len, values))
            last = base + len(texts) - 1
            made.append(BatchInfo(base_offset=base, last_offset=last, epoch=request.epoch, size=size, data=texts))
            base += len(texts)
        refusal = raft.append(tuple(made), self._node.turn_ms)
        return (ErrorCode.NONE, base) if refusal is None else (refusal.error, refusal.wanted_offset)

    # What breaks between the two.

    def cut_off(self, why: str) -> None:
        """Both streams are gone; the controller begins anew from where its state stands."""
        self._world.note(self._node.id, "cut off", why)
        self._end_streams()
        self.controller.cut_off()
        self._listen_again_in(100)

    def restart_controller(self) -> None:
        """The controller's process dies alone, and another begins from nothing."""
        self._world.note(self._node.id, "controller restarts")
        self._end_streams()
        self.controller.is_gone = True
        self.controller = Controller(self, self._node, self._world)
        self._listen_again_in(300)

    def _end_streams(self) -> None:
        """If it was active, its epoch ends with its stream: as services/quorum/controller_presence.py has it."""
        for pipe in (self._events, self._appends, self._answers):
            pipe.is_cut = True
        epoch, node = self._active_epoch, self._node

        def resign(raft: Raft) -> None:
            if isinstance(raft.role, Leader) and raft.role.epoch == epoch:
                raft.resign(node.turn_ms)

        if epoch != NONE_YET:
            node.hear(resign)

    def _listen_again_in(self, ms: int) -> None:
        self._attempt += 1
        attempt = self._attempt
        self._world.at(ms, lambda: self._listen_again(attempt))

    def _listen_again(self, attempt: int) -> None:
        if not self._is_there() or attempt != self._attempt:
            return
        self._begin_streams()
        self.next = self.controller.engine.next_offset
        self.image = self._world.history.image_at(self.next)
        self._world.checker.commit.after_load(self._node)
        self.poke()

    # Checkpoints.

    def snapshot(self, log: LogView) -> Snapshot | None:
        """The controller's state as of its last commit, if this log can have it."""
        made = self.controller.checkpoint()
        if made is None:
            return None
        offset, state = made
        if not log.start < offset <= log.high_watermark:
            return None
        level = log.kraft_versions.before(offset)
        return Snapshot(
            id=OffsetAndEpoch(epoch=log.epochs.epoch_at(offset - 1), offset=offset),
            image=self._world.history.image_at(offset),
            voters=log.voters.before(offset) if level else None,
            kraft_version=level or None,
            state=state,
        )
