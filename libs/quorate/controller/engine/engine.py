"""The controller engine: a replicated state machine that runs commands, hands their records to the quorum, and answers.

It does no I/O and reads no clock. Its driver reports events by method calls (`claim`, `write`, `note_appended`,
`commit`, `renounce`) and collects the resulting work from `ready`. Three offsets, all exclusive ends: `committed`
(answers up to here may be sent), `appended` (the quorum has the records below), `next_offset` (the records below are
applied here).

As in Kafka, a write is applied to the speculative state before it is appended: a record that cannot be applied must not
be replicated. Each batch begins with a timeline snapshot, to which the state is reverted if the batch fails; `failures`
says what else follows. An offset counts as committed only once the quorum has also confirmed the append: the high
watermark may rise before that, and a control record of the quorum may lie at the offset meant for the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kraft import Message
from quorate.controller.engine.application import application
from quorate.controller.engine.decision import Command
from quorate.controller.engine.deduplication import RequestDeduplication, RequestId
from quorate.controller.engine.failures import Fault, Where, outcome, row_for
from quorate.controller.engine.pending import InFlight, Pending, QueueLimit
from quorate.controller.engine.preparation import Batch, Prepared, Undecided, preparation
from quorate.controller.engine.ready import Answer, Append, EngineReady
from quorate.controller.engine.steps import Steps, after_step, finished, over
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.nouns import Epoch, Offset
from quorate.records import request_of

__all__ = ["Answer", "Append", "Engine", "EngineReady", "QueueLimit"]


@dataclass(slots=True)
class Engine:
    """The state machine of one controller, active or standby, without I/O: its driver does what `ready` returns.

    `epoch` is the leader epoch in which this controller is active; None on standby. Offsets are exclusive ends.
    """

    state: ClusterState
    epoch: Epoch | None = None
    next_offset: Offset = 0
    appended: Offset = 0
    committed: Offset = 0
    is_loaded: bool = False  # whether it had all that a leader said is committed; before, rights may be missing
    _high_watermark: Offset = 0
    _revert_count: int = 0
    _partial: Offset | None = None  # the base offset of a write of which some records are applied, and not all
    _in_flight: deque[InFlight] = field(default_factory=deque)
    _pending: deque[Pending] = field(default_factory=deque)
    repeats: RequestDeduplication = field(default_factory=RequestDeduplication)
    _appends: list[Append] = field(default_factory=list)
    _answers: list[Answer] = field(default_factory=list)
    metadata_error_count: int = 0
    """How many failures with `counts=True` in `failures.TABLE` have happened: Kafka's MetadataErrorCount, KIP-859."""

    # -- on standby: the log decides -------------------------------------------------------------

    def replay(self, records: Sequence[Message], *, base_offset: Offset, end_offset: Offset) -> None:
        """Applies a committed batch on a standby, without records if it is a control batch. Raises ReplayFault."""
        assert self.epoch is None, f"active in epoch {self.epoch}: replays only its own writes"
        assert base_offset >= self.next_offset, (base_offset, self.next_offset)
        self.state.apply_all(records, base_offset)
        if records and (text := request_of(records[0])) is not None:
            self.repeats.note(text)
        self.state.settle()
        self._stand_at(end_offset)

    def load(self, records: Iterable[Message], *, end_offset: Offset) -> None:
        """Replaces the state by a whole KRaft snapshot (KIP-630). Raises ReplayFault."""
        self.begin_load()
        self.load_more(records, end_offset=end_offset)
        self.end_load(end_offset=end_offset)

    def begin_load(self) -> None:
        """Clears the state before a snapshot is loaded in parts."""
        assert self.epoch is None, f"active in epoch {self.epoch}: a leader never loads a snapshot"
        self.state.clear()
        self.is_loaded = False
        self._stand_at(0)

    def load_more(self, records: Iterable[Message], *, end_offset: Offset) -> None:
        """Applies one part of the snapshot that ends at `end_offset`. Raises ReplayFault."""
        assert self.epoch is None, f"active in epoch {self.epoch}: a leader never loads a snapshot"
        assert self.next_offset == 0, f"at offset {self.next_offset}: a snapshot is loaded into an empty state"
        self.state.load_more(records, end_offset)

    def end_load(self, *, end_offset: Offset) -> None:
        """Ends the loading of a snapshot: replay continues at `end_offset`, the offset behind it."""
        assert self.epoch is None, f"active in epoch {self.epoch} while a snapshot is loaded, at {end_offset}"
        self._stand_at(end_offset)

    # -- leadership --------------------------------------------------------------------------------

    def claim(self, epoch: Epoch, next_offset: Offset) -> None:
        """Becomes the active controller in `epoch`. The log ends at `next_offset`; all records below it are applied.

        Only control records lie between the last applied record and `next_offset`. The committed offset stays before
        them: another leader may replace them by a record that this state would then miss.
        """
        assert self.epoch is None or self.epoch < epoch, (self.epoch, epoch)
        assert not self._pending, "the pending commands of an earlier epoch were not answered"
        assert not self._appends, f"batches of an earlier epoch are left: {len(self._appends)}"
        assert next_offset >= self.next_offset, (next_offset, self.next_offset)
        committed, self.epoch, self.is_loaded = self.next_offset, epoch, True
        self._stand_at(next_offset)
        self.committed = self._high_watermark = committed

    def renounce(self) -> None:
        """Stops being active: reverts to the last committed state and answers all pending commands with NOT_CONTROLLER.

        Afterwards replay continues at `next_offset`, which is 0 if the state could not be reverted and was cleared.
        """
        if self.epoch is None:
            return
        self._go_back_to(self.first_uncommitted())
        self._go_before_control_records()
        refusal = ApiError(
            ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the write was committed"
        )
        self._answers += [waiting.answer(self.epoch, error=refusal) for waiting in self._pending]
        self._pending.clear()
        self._appends.clear()
        self._stand_at(self.next_offset)
        self.epoch = None

    # -- checkpoints -----------------------------------------------------------------------------------

    def hold_stable(self) -> Offset | None:
        """Holds the last committed state for a snapshot file: `state.at(offset)` stays readable while writes continue.

        Returns its offset, or None if nothing is committed yet, a metadata transaction is open there, or the state
        there was already reverted by an AbortTransactionRecord. `state.registry.release` ends the hold. Clearing the
        state or loading a snapshot ends it too; `state.registry.is_held` is False then.
        """
        offset = self.first_uncommitted()
        if not 0 < offset <= self.committed:
            return None
        registry = self.state.registry
        if offset not in registry:
            if self._in_flight:
                return None
            registry.create(offset)
        if self.state.at(offset).transactions.open is not None:
            return None
        registry.hold(offset)
        return offset

    # -- write ---------------------------------------------------------------------------------------

    def write(
        self,
        token: Any,
        command: Command[Any],
        *,
        now_ms: int,
        traceparent: bytes | None = None,
        request_id: RequestId | None = None,
        lane: QueueLimit = QueueLimit.ADMIN,
    ) -> None:
        """Runs a command and queues its records; the answer follows when all that it depends on is committed.

        A request whose `request_id` was already written is not written again: it gets the first answer. Raises
        ApiError(NOT_CONTROLLER) on standby; ApiError(REQUEST_TIMED_OUT), retriable, if too many commands are pending;
        Fault if this controller cannot continue: the state is as before the write. A refusal is in the answer.
        """
        asked = Undecided(token=token, command=command, now_ms=now_ms, traceparent=traceparent, request_id=request_id)
        finished(self.write_in_steps(asked, lane=lane))

    def write_in_steps(self, asked: Undecided, *, lane: QueueLimit = QueueLimit.ADMIN) -> Steps[int]:
        """Does what `write` does, in steps, and returns the number of records.

        Between two steps everything may happen that may happen between two writes, but for another write once records
        are applied; a command that only reads then sees the state before them. A decision that has read a state which
        is no longer the present one is begun anew. Records are taken back if the steps are not run to their end. Raises
        what `write` raises, and ApiError(NOT_CONTROLLER) if the leadership is lost meanwhile.
        """
        self.check_room(lane)
        record_count = yield from self._run(asked)
        self._answer_committed()
        return record_count

    def check_room(self, lane: QueueLimit, *, waiting: int = 0) -> None:
        """Checks that a command may be written; `waiting` is how many others wait for their decision.

        Raises ApiError: NOT_CONTROLLER on standby; REQUEST_TIMED_OUT, retriable, if too many commands wait.
        """
        if self.epoch is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        if len(self._pending) + waiting >= lane:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{lane.value} requests wait already, the limit; try again")

    def note_appended(self, end_offset: Offset) -> None:
        """Notes that the quorum has appended all records below `end_offset`; answers what is committed thereby."""
        self.appended = max(self.appended, end_offset)
        self._settle()

    def decide_again(self, offset: Offset) -> bool:
        """Reruns the commands that are not appended, from `offset`: a control record took the offset of a batch.

        Returns False if the state cannot be reverted that far; this controller must then renounce. Raises Fault, as
        `write` does; the commands that were not rerun stay pending and are answered by `renounce`.
        """
        assert self.epoch is not None
        again = [waiting for waiting in self._pending if waiting.end_offset > self.appended]
        self._go_back_to(self.appended)
        if self.next_offset != self.appended:
            return False
        self._pending = deque(waiting for waiting in self._pending if waiting.end_offset <= self.appended)
        self._appends.clear()
        assert offset >= self.appended, (offset, self.appended)
        self.next_offset = self.appended = offset
        for done, waiting in enumerate(again):
            try:
                finished(self._run(waiting.asked))
            except Fault:
                self._pending.extend(again[done:])
                raise
        return True

    def refuse_unappended(self, error: ApiError) -> bool:
        """Drops the commands that are not appended and answers them with `error`: the quorum refused an append.

        Returns False if the state cannot be reverted that far; this controller must then renounce.
        """
        assert self.epoch is not None
        void = [waiting for waiting in self._pending if waiting.end_offset > self.appended]
        self._go_back_to(self.appended)
        if self.next_offset != self.appended:
            return False
        self._pending = deque(waiting for waiting in self._pending if waiting.end_offset <= self.appended)
        self._appends.clear()
        self._answers += [waiting.answer(self.epoch, error=error) for waiting in void]
        return True

    def _run(self, asked: Undecided) -> Steps[int]:
        """Decides a write and applies its batches; both anew if it is reverted meanwhile. Raises ApiError, Fault.

        Only the caller of the last step may append: before it a write is there in part, and may still be taken back.
        """
        epoch, appends = self.epoch, None
        while appends is None:
            self._check_still_leads(epoch)
            prepared = yield from self._undisturbed(asked)
            appends = yield from self._applied(prepared.batches, is_traced=asked.traceparent is not None)
        assert len(appends) == len(prepared.batches), (prepared, appends)  # I-16
        self._appends += appends
        if entry := prepared.mark:
            self.repeats.begin(entry, prepared.response)
        end_offset = self.whole_offset
        assert not self._pending or self._pending[-1].end_offset <= end_offset, (self._pending[-1], end_offset)
        self._pending.append(
            Pending(
                asked=asked,
                end_offset=end_offset,
                response=prepared.response,
                error=prepared.error,
                wrote=bool(appends),
            )
        )
        return sum([len(append.values) for append in appends])

    def _undisturbed(self, asked: Undecided) -> Steps[Prepared]:
        """Decides and encodes a write on one state; begins anew if that changes meanwhile. Raises ApiError, Fault."""
        epoch = self.epoch
        while True:
            begun, steps = self._stamp(), self._prepare(asked)
            try:
                while self._stamp() == begun:
                    if (prepared := after_step(steps)) is not None:
                        return prepared
                    yield
            finally:
                steps.close()
            self._check_still_leads(epoch)

    def _check_still_leads(self, epoch: Epoch | None) -> None:
        """Raises ApiError(NOT_CONTROLLER) if the write began in another epoch."""
        if self.epoch != epoch:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the write was appended")

    def _stamp(self) -> tuple[Epoch | None, Offset, int, Offset | None]:
        """Values that change whenever the state of an active controller does, or the offset of the next record."""
        return self.epoch, self.next_offset, self._revert_count, self._partial

    def _prepare(self, asked: Undecided) -> Steps[Prepared]:
        try:
            repeated = None if asked.request_id is None else self.repeats.answer(asked.request_id)
        except ApiError as refusal:
            return over(Prepared(error=refusal.as_value()))
        if repeated is not None:
            return over(Prepared(response=repeated))
        state = self.state if self._partial is None else self.state.at(self._partial)
        return preparation(asked, state, self.whole_offset, self.failed)

    def failed(self, where: Where, cause: Exception, what: str) -> ApiError | Fault:
        """Counts a failure in `metadata_error_count` if its table row says so; returns the exception to raise."""
        self.metadata_error_count += row_for(where, cause).counts
        return outcome(where, cause, what)

    def _applied(self, batches: tuple[Batch, ...], *, is_traced: bool) -> Steps[list[Append] | None]:
        """Applies all batches of a write or none; returns what is to be appended, None if it was reverted meanwhile.

        The write is in flight from its first record on. If a record cannot be applied (Fault), or if the steps are not
        run to their end, the state is as it was before the write.
        """
        appends: list[Append] = []
        if not batches:
            return appends
        assert self._partial is None, f"two writes are applied at once: {self._partial}, {self.next_offset}"
        base_offset = self._partial = self.next_offset
        try:
            for batch in batches:
                append = self._take_into_flight(batch, is_traced=is_traced)
                for _ in application(batch.records, self.state, append.base_offset, self.failed):
                    yield
                    if self._partial is None:
                        return None
                appends.append(append)
            self._partial = None
            return appends
        finally:
            if self._partial is not None:
                self._go_back_to(base_offset)

    def _take_into_flight(self, batch: Batch, *, is_traced: bool) -> Append:
        """Begins a batch: `next_offset` is its end now, and the timeline has a snapshot of the state before it."""
        assert self.epoch is not None
        base_offset = self.next_offset
        if self.state.registry.latest != base_offset:
            self.state.registry.create(base_offset)
        assert not self._in_flight or self._in_flight[-1].end_offset <= base_offset, (self._in_flight[-1], base_offset)
        self.next_offset += len(batch.records)
        self._in_flight.append(InFlight(base_offset, self.next_offset, batch.mark))
        is_tagged = is_traced or batch.mark is not None
        return Append(epoch=self.epoch, base_offset=base_offset, values=batch.values, is_tagged=is_tagged)

    # -- commit ------------------------------------------------------------------------------------

    def commit(self, high_watermark: Offset) -> None:
        """Moves the high watermark up; answers the commands whose records are both below it and appended."""
        assert self.epoch is not None
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._settle()

    def ready(self) -> EngineReady:
        """Returns the batches to append and the answers to send since the last call: each is returned once."""
        ready = EngineReady(appends=tuple(self._appends), answers=tuple(self._answers))
        self._appends.clear()
        self._answers.clear()
        return ready

    def _settle(self) -> None:
        """Raises `committed` to what is appended and below the high watermark; answers, and forgets old snapshots."""
        self.committed = max(self.committed, min(self._high_watermark, self.appended))
        assert self.committed <= min(self._high_watermark, self.appended), (self.committed, self.appended)
        while self._in_flight and self._in_flight[0].end_offset <= self.committed:
            settled = self._in_flight.popleft()
            if settled.mark is not None:
                self.repeats.note(settled.mark)
        self._answer_committed()
        # An open transaction may still be aborted: its start is kept.
        transaction = self.state.transactions.open
        first = self.first_uncommitted()
        self.state.registry.forget_before(first if transaction is None else min(first, transaction.start))

    def _answer_committed(self) -> None:
        while self._pending and self._pending[0].end_offset <= self.committed:
            self._answers.append(self._pending.popleft().answer(self.epoch))

    @property
    def whole_offset(self) -> Offset:
        """The end of the writes that are applied as a whole: `next_offset`, unless one is applied in part."""
        return self.next_offset if self._partial is None else self._partial

    def first_uncommitted(self) -> Offset:
        """Base offset of the first uncommitted batch, or `next_offset`; the state at that offset is fully committed."""
        return self._in_flight[0].base_offset if self._in_flight else self.next_offset

    def _go_back_to(self, offset: Offset) -> None:
        """Reverts the state to `offset`, the base offset of a batch; clears it, at offset 0, if that is impossible.

        It is impossible across an AbortTransactionRecord, which itself reverts the state: the log is replayed from 0.
        """
        if offset == self.next_offset:
            return
        self._partial = None
        self._revert_count += 1
        if offset in self.state.registry:
            self.state.registry.revert_to(offset)
            self.next_offset = offset
        else:
            self.state.registry.reset()
            self.next_offset, self.is_loaded = 0, False
        while self._in_flight and self._in_flight[-1].base_offset >= offset:
            undone = self._in_flight.pop()
            if undone.mark is not None:
                self.repeats.undo(undone.mark)
        assert not self._in_flight or self._in_flight[-1].end_offset <= offset, (self._in_flight[-1], offset)

    def _go_before_control_records(self) -> None:
        """Lowers `next_offset` to `committed`: only control records lie between; another leader may replace them."""
        for offset in self.state.registry.offsets:
            if offset > self.committed:
                self.state.registry.delete(offset)
        self.next_offset = min(self.next_offset, self.committed)

    def _stand_at(self, offset: Offset) -> None:
        """Sets all offsets to `offset`: everything below is applied, appended and committed; none is in flight."""
        assert not self._in_flight, self._in_flight
        assert not self._pending, f"{len(self._pending)} commands wait for what is not in flight"
        assert self._partial is None, f"a write is applied in part, from {self._partial} on"
        assert not self.repeats.under_way_count, "an answer waits for a batch that is not in flight"
        self.next_offset = self.appended = self.committed = self._high_watermark = offset
