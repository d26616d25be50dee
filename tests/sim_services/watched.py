"""The controller service's own driver, looked at: what it hears, what it writes and when, and what is in its state."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse, ListenResponse
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, steps_of
from quorate.controller.engine.failures import Fault
from quorate.controller.engine.steps import Steps
from quorate.controller.periodic import CHORES
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset
from services.controller.driver import ControllerDriver
from tests.sim_driver.checker import require

if TYPE_CHECKING:
    from tests.sim_services.controller import Controller

T = TypeVar("T")
BY_ITSELF: Final = frozenset(chore.name for chore in CHORES)
REGISTRATION: Final = "BrokerRegistration"
SESSIONS: Final[ContextVar[Mapping[NodeId, int] | None]] = ContextVar("sessions", default=None)
"""What the heartbeat service said to the present task of valid sessions, by broker; None before it was asked."""
SLOW_SHARE: Final = 0.3
STEPS_MAX: Final = 4
HASH_EVERY: Final = 32
"""A standby's whole state is compared where it crosses a multiple of this."""


class WatchedDriver(ControllerDriver):
    """It does nothing else than the real one, and tells what is broken."""

    def __init__(self, *arguments: Any, owner: Controller, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.answered_count = 0
        self._owner = owner
        self._sent = 0
        """The correlation id of the last message of appends."""
        self._void_up_to = 0
        """Answers to these are void: the state that they speak of is gone."""
        self._heard = 0
        """The correlation id of the last answer."""
        self._hashed: Offset = 0
        self._pace = owner.world.stream(f"pace of {owner.host}.{owner.life_count}")

    # Appends, as they pass the door.

    def note_sent(self, request: AppendRequest) -> None:
        """It leaves."""
        is_present = request.epoch == self.engine.epoch
        require("I-41", is_present, "appends of an epoch that is over", self._who, request.epoch, self.engine.epoch)
        self._sent = max(self._sent, request.correlation_id)

    def note_heard(self, answer: AppendResponse) -> None:
        """It is taken from the stream."""
        self._heard = answer.correlation_id
        if answer.correlation_id <= self._void_up_to:
            self._owner.world.fired("void answers")

    def appended(self, end_offset: Offset) -> None:
        """An answer that is void must not come here."""
        self._require_valid()
        self.answered_count += 1
        super().appended(end_offset)

    def refused(self, error: ErrorCode, wanted: Offset) -> None:
        """Nor this one."""
        self._require_valid()
        self._void()
        self._owner.world.fired("append refused")
        super().refused(error, wanted)

    def cut_off(self) -> None:
        self._void()
        super().cut_off()

    def _require_valid(self) -> None:
        is_valid = self._heard > self._void_up_to
        require("I-41", is_valid, "hears an answer to a voided append", self._who, self._heard, self._void_up_to)

    def _void(self) -> None:
        self._void_up_to = self._sent
        if self.engine.whole_offset < self.engine.next_offset:
            self._owner.world.fired("taken back in part")

    # What it hears and does.

    async def hear(self, event: ListenResponse) -> None:
        was_active = self.is_active
        if event.WhichOneof("event") == "leadership":
            self._void()
            if was_active and self.engine.next_offset > self._owner.world.checker.end:
                self._owner.world.fired("failover with writes in flight")
        await super().hear(event)
        if event.WhichOneof("event") == "snapshot" and event.snapshot.last:
            self._owner.loaded()
        if not self.is_active:
            self._compare()

    def _failed(self, fault: Fault) -> ApiError:
        """It goes on, or ends in order; but nothing here may bring it to that."""
        assert self._owner.life is not None
        self._owner.world.failed(self._owner.life, fault.cause or fault)
        return super()._failed(fault)

    async def begin(self, api: str, command: Any, *arguments: Any, **named: Any) -> Any:
        """Some writes are decided in steps, as those of thousands of items are."""
        return await super().begin(api, self._slowed(api, command), *arguments, **named)

    def _slowed(self, api: str, command: Command[T]) -> Command[T]:
        if self._pace.random() >= SLOW_SHARE:
            return command
        before, after = self._pace.randrange(STEPS_MAX), self._pace.randrange(1, STEPS_MAX)
        begun_at: list[Offset] = []

        @CommandInSteps
        def slowly(state: ClusterState, moment: Moment) -> Steps[Decision[T]]:
            self._owner.world.fired("decisions in steps" if not begun_at else "decisions begun anew")
            begun_at.append(moment.next_offset)
            for _ in range(before):
                yield
            decision = yield from steps_of(command, state, moment)
            for _ in range(after):
                yield
            now = self.engine.next_offset
            require("I-40", now == moment.next_offset, "decides on a state that is gone", self._who, api, moment, now)
            return decision

        return slowly

    async def _decide(self, api: str, *arguments: Any, **named: Any) -> Any:
        if api in BY_ITSELF:
            require("I-38", self.is_active, "does a chore, and is not active", self._who, api)
            self._owner.world.fired("chores")
        before = {broker.id: broker for broker in self.engine.state.brokers} if api == REGISTRATION else {}
        begun = await super()._decide(api, *arguments, **named)
        for broker in self.engine.state.brokers if before else ():
            if broker.id in before and before[broker.id].incarnation_id != broker.incarnation_id:
                self._require_dead(before[broker.id])
        return begun

    def _require_dead(self, broker: Broker) -> None:
        """Another process has taken its place: it was fenced, and nobody had heard of a session that it has."""
        told = SESSIONS.get()
        require("I-91", broker.fenced, "is not fenced, and its id is given to another", broker.id)
        require("I-91", told is not None, "nobody asked for its session, and its id is given to another", broker.id)
        has_session = told is not None and told.get(broker.id) == broker.epoch
        require("I-91", not has_session, "has a session, and its id is given to another", broker.id, broker.epoch)
        self._owner.world.fired("places taken")

    def _compare(self) -> None:
        """A standby has all that is committed, and no more; and that makes one state, on every controller."""
        world, at = self._owner.world, self.engine.next_offset
        require("I-38", at <= world.checker.end, "stands by with what is not committed", self._who, at)
        if self._hashed < at and at // HASH_EVERY != self._hashed // HASH_EVERY:
            self.compare_now()
        self._hashed = at

    def compare_now(self) -> None:
        """The whole state, with that of all others at this offset."""
        world, at = self._owner.world, self.engine.next_offset
        if at:
            world.hashes.note(self._who, at, 0, canonical(self.engine.state), "I-37")

    @property
    def _who(self) -> str:
        return f"controller {self._owner.host}"
