"""claim → write → commit → answer, and back to the last commit when leadership is lost.

The engine holds the state, and knows no clock, no wire, no log. Its driver tells it what happened and
takes from `ready` what is to be done. Three offsets, all exclusive ends: `committed` (answers may leave),
`appended` (the quorum has it), `next_offset` (applied here and on its way).

A write is applied before it is appended, as in Kafka: what cannot be applied must not be replicated. Each
batch leaves a snapshot of the timeline before it, so that the state can go back to where it began.

Nothing counts as committed before the quorum has said that it took it: a high watermark may run ahead of that
word, and a control record of the quorum's own may lie where a batch of ours was to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from kraft import Message
from quorate.controller.decision import RECORDS_PER_WRITE_MAX, Command, Moment, check_size
from quorate.controller.repeats import Repeats, RequestId, mark
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import record_version
from quorate.nouns import Epoch, Offset
from quorate.records import encode_record, request_of, with_request, with_trace


class Lane(Enum):
    """Whose command it is, and how many may wait at once; one more is refused with a retriable error.

    What keeps the cluster alive is not refused because admins ask for much.
    """

    ADMIN = 2_000
    """What people and their tools ask for."""
    CLUSTER = 4_000
    """Brokers, controllers, and this controller's own chores."""


class _InFlight(NamedTuple):
    """One batch that is applied and not known to be committed; there is a snapshot at `base_offset`."""

    base_offset: Offset
    end_offset: Offset
    mark: bytes | None
    """The mark that it carries."""


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """A batch for the quorum: framed values whose first must get `base_offset`."""

    epoch: Epoch
    base_offset: Offset
    values: tuple[bytes, ...]
    is_tagged: bool = False
    """Its first record carries a trace context or a request's mark, which hold for the batch that it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end of a command: its response, or why there is none, and the state that it speaks of."""

    token: Any
    response: Any = None
    error: ApiError | None = None
    epoch: Epoch
    offset: Offset


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver has to do, in this order."""

    appends: tuple[Append, ...]
    answers: tuple[Answer, ...]


class _Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A command that has run and waits for its offset. Reads wait too: what they saw may not be committed yet."""

    token: Any
    command: Command[Any]
    traceparent: bytes | None
    request_id: RequestId | None
    now_ms: int
    end_offset: Offset
    response: Any
    error: ApiError | None


@dataclass(slots=True)
class Engine:
    """The state machine of one controller, active or standing by.

    `epoch` is the epoch in which it is active, None on standby.
    """

    state: ClusterState
    epoch: Epoch | None = None
    next_offset: Offset = 0
    appended: Offset = 0
    committed: Offset = 0
    _high_watermark: Offset = 0
    _in_flight: deque[_InFlight] = field(default_factory=deque)
    _pending: deque[_Pending] = field(default_factory=deque)
    repeats: Repeats = field(default_factory=Repeats)
    _appends: list[Append] = field(default_factory=list)
    _answers: list[Answer] = field(default_factory=list)

    # -- on standby: the log decides -------------------------------------------------------------

    def replay(self, records: Iterable[Message], *, base_offset: Offset, end_offset: Offset) -> None:
        """APPLY committed records that someone else has written; none for a control batch. Raises ReplayFault."""
        assert self.epoch is None, f"active in epoch {self.epoch}: replays only its own writes"
        assert base_offset >= self.next_offset, (base_offset, self.next_offset)
        for offset, record in enumerate(records, start=base_offset):
            self.state.apply(record, offset)
            if offset == base_offset and (text := request_of(record)) is not None:
                self.repeats.note(text)
        self.state.settle()
        self._stand_at(end_offset)

    def load(self, records: Iterable[Message], *, end_offset: Offset) -> None:
        """Become what a snapshot says (KIP-630). Raises ReplayFault."""
        self.begin_load()
        self.load_more(records, end_offset=end_offset)
        self.end_load(end_offset=end_offset)

    def begin_load(self) -> None:
        """Forget everything, for a snapshot that is to come."""
        assert self.epoch is None, f"active in epoch {self.epoch}: a leader never loads a snapshot"
        self.state.clear()
        self._stand_at(0)

    def load_more(self, records: Iterable[Message], *, end_offset: Offset) -> None:
        """A part of a snapshot that ends at `end_offset`. Raises ReplayFault."""
        assert self.next_offset == 0, f"at offset {self.next_offset}: a snapshot is loaded into an empty state"
        self.state.load_more(records, end_offset)

    def end_load(self, *, end_offset: Offset) -> None:
        """That was all of it."""
        self._stand_at(end_offset)

    # -- leadership --------------------------------------------------------------------------------

    def claim(self, epoch: Epoch, next_offset: Offset) -> None:
        """Become active: all earlier epochs are applied, and the log ends at `next_offset`.

        In between are control records only, and these need not be committed: who stood behind one that gives way to
        another's record would never see that.
        """
        assert self.epoch is None or self.epoch < epoch, (self.epoch, epoch)
        assert not self._pending, "the pending commands of an earlier epoch were not answered"
        assert next_offset >= self.next_offset, (next_offset, self.next_offset)
        committed, self.epoch = self.next_offset, epoch
        self._stand_at(next_offset)
        self.committed = self._high_watermark = committed

    def renounce(self) -> None:
        """Stop being active: back to the last commit, and NOT_CONTROLLER to all that waited.

        `next_offset` says where to go on replaying: at 0 if the state could not be gone back from.
        """
        if self.epoch is None:
            return
        self._go_back_to(self.first_uncommitted())
        self._go_before_control_records()
        refusal = ApiError(
            ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the write was committed"
        )
        for waiting in self._pending:
            self._answers.append(self._answer(waiting, error=refusal))
        self._pending.clear()
        self._appends.clear()
        self._stand_at(self.next_offset)
        self.epoch = None

    # -- checkpoints -----------------------------------------------------------------------------------

    def hold_stable(self) -> Offset | None:
        """Hold the state as of the last commit for a checkpoint: `state.at` the answer stays while writes go on.

        None if there is nothing yet, if an open transaction reaches over it, or if an Abort has gone back over it. It
        is let go with `state.registry.release`; a state that goes back to nothing, or loads a snapshot, lets go of it
        too (`state.registry.is_held` is False then).
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
        lane: Lane = Lane.ADMIN,
    ) -> None:
        """WRITE: decide, apply, and hand the records on. The answer comes when all that it rests on is committed.

        What has been written for `request_id` already is not written again: it gets the same answer. Raises
        ApiError(NOT_CONTROLLER) on standby, and a retriable error when too much waits already.
        """
        if self.epoch is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        if len(self._pending) >= lane.value:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{lane.value} requests wait already; try again")
        self._run(token, command, now_ms, traceparent, request_id)
        self._answer_committed()

    def took(self, end_offset: Offset) -> None:
        """The quorum has appended everything below `end_offset`."""
        self.appended = max(self.appended, end_offset)
        self._settle()

    def wanted(self, offset: Offset) -> bool:
        """The quorum refused a base offset: a control record came in between. Decide again from there.

        False if the state cannot go back so far: then this controller cannot stay active.
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
        for waiting in again:
            self._run(waiting.token, waiting.command, waiting.now_ms, waiting.traceparent, waiting.request_id)
        return True

    def refuse(self, error: ApiError) -> bool:
        """The quorum cannot keep more now: what it has not taken never was, and whoever waits for it gets `error`.

        False if the state cannot go back so far: then this controller cannot stay active.
        """
        assert self.epoch is not None
        void = [waiting for waiting in self._pending if waiting.end_offset > self.appended]
        self._go_back_to(self.appended)
        if self.next_offset != self.appended:
            return False
        self._pending = deque(waiting for waiting in self._pending if waiting.end_offset <= self.appended)
        self._appends.clear()
        self._answers += [self._answer(waiting, error=error) for waiting in void]
        return True

    def _run(
        self, token: Any, command: Command[Any], now_ms: int, traceparent: bytes | None, request_id: RequestId | None
    ) -> None:
        error: ApiError | None = None
        response: Any = None
        try:
            response = None if request_id is None else self.repeats.answer(request_id)
            if response is None:
                decision = command(self.state, Moment(next_offset=self.next_offset, now_ms=now_ms))
                check_size(decision)
                response = decision.response
                # Made before anything is applied: it may be refused.
                text = mark(request_id, response) if request_id is not None and decision.records else None
                self._append_all(decision.records, traceparent, text)
                if text is not None:
                    self.repeats.begin(text, response)
        except ApiError as refusal:
            error = refusal
        self._pending.append(
            _Pending(
                token=token,
                command=command,
                traceparent=traceparent,
                request_id=request_id,
                now_ms=now_ms,
                end_offset=self.next_offset,
                response=response,
                error=error,
            )
        )

    def _append_all(self, records: tuple[Message, ...], traceparent: bytes | None, text: bytes | None) -> None:
        """In as many batches as they need; the last has the mark: a write that was cut short is done again."""
        for start in range(0, len(records), RECORDS_PER_WRITE_MAX):
            batch = records[start : start + RECORDS_PER_WRITE_MAX]
            is_last = start + RECORDS_PER_WRITE_MAX >= len(records)
            self._append(batch, traceparent, text if is_last else None)

    def _append(self, records: tuple[Message, ...], traceparent: bytes | None, text: bytes | None) -> None:
        assert self.epoch is not None
        level = self.state.features.record_level
        if self.state.registry.latest != self.next_offset:
            self.state.registry.create(self.next_offset)
        for offset, record in enumerate(records, start=self.next_offset):
            self.state.apply(record, offset)
        first = records[0]
        if traceparent is not None:
            first = with_trace(first, traceparent)
        if text is not None:
            first = with_request(first, text)
        values = tuple([encode_record(record, record_version(record, level)) for record in (first, *records[1:])])
        self._appends.append(
            Append(
                epoch=self.epoch,
                base_offset=self.next_offset,
                values=values,
                is_tagged=traceparent is not None or text is not None,
            )
        )
        end_offset = self.next_offset + len(records)
        self._in_flight.append(_InFlight(self.next_offset, end_offset, text))
        self.next_offset = end_offset

    # -- commit ------------------------------------------------------------------------------------

    def commit(self, high_watermark: Offset) -> None:
        """COMMIT: everything below is on a majority; what rested on it may be answered."""
        assert self.epoch is not None
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._settle()

    def ready(self) -> Ready:
        """All that is to be done now; asked again, it is not told again."""
        ready = Ready(appends=tuple(self._appends), answers=tuple(self._answers))
        self._appends.clear()
        self._answers.clear()
        return ready

    def _settle(self) -> None:
        """Answer what is committed and taken; what is settled is never gone back to."""
        self.committed = max(self.committed, min(self._high_watermark, self.appended))
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
            self._answers.append(self._answer(self._pending.popleft()))

    def _answer(self, waiting: _Pending, error: ApiError | None = None) -> Answer:
        assert self.epoch is not None
        return Answer(
            token=waiting.token,
            response=None if error else waiting.response,
            error=error or waiting.error,
            epoch=self.epoch,
            offset=waiting.end_offset,
        )

    def first_uncommitted(self) -> Offset:
        """Where the first batch begins that is not committed: the state at that offset is all committed."""
        return self._in_flight[0].base_offset if self._in_flight else self.next_offset

    def _go_back_to(self, offset: Offset) -> None:
        """The state as it was at `offset`, where a batch began; empty, at 0, if there is no way back.

        There is none over an AbortTransactionRecord, which has itself gone back: such a state is replayed anew.
        """
        if offset == self.next_offset:
            return
        if offset in self.state.registry:
            self.state.registry.revert_to(offset)
            self.next_offset = offset
        else:
            self.state.registry.reset()
            self.next_offset = 0
        while self._in_flight and self._in_flight[-1].base_offset >= offset:
            undone = self._in_flight.pop()
            if undone.mark is not None:
                self.repeats.undo(undone.mark)

    def _go_before_control_records(self) -> None:
        """To the last commit, where the same state is: the quorum's own records in between may give way to others."""
        registry = self.state.registry
        for offset in registry.offsets:
            if offset > self.committed:
                registry.delete(offset)
        self.next_offset = min(self.next_offset, self.committed)

    def _stand_at(self, offset: Offset) -> None:
        """Everything below is applied, taken and committed; nothing is in flight."""
        assert not self._in_flight, self._in_flight
        self.next_offset = self.appended = self.committed = self._high_watermark = offset
