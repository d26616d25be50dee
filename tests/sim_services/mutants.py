"""Bugs planted in the glue of the controller and heartbeat services, each by taking away one thing that it must do."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from quorate.controller.engine.engine import Answer, Engine, QueueLimit
from quorate.controller.engine.preparation import Prepared, Undecided, preparation
from quorate.controller.engine.steps import Steps
from quorate.liveness import Attendance, Claimant, Claimed, Hush, SessionClaim, Sessions
from quorate.nouns import Epoch, NodeId, Offset
from services.controller import forwarding
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.decision_queue import DecisionQueue
from services.controller.driver import ControllerDriver
from services.controller.forwarding import Forwarding
from services.controller.periodic_tasks import PeriodicTasks
from services.controller.quorum_link import QuorumLink
from services.controller.quorum_node import QuorumNode
from services.controller.sessions import SessionLookup as SessionsAskedFor
from services.heartbeat.standing import Standing
from tests.seeds.planting import Mutant, Patch
from tests.sim_services.runner import LEADING, TWO

LONG_S: Final = 30.0


def _is_sure_of_itself(patch: Patch) -> None:
    async def confirm(self: QuorumNode, epoch: Epoch) -> None:
        """Nobody is asked."""

    patch.setattr(QuorumNode, "confirm", confirm)


def _passes_on_what_was_passed_on(patch: Patch) -> None:
    patch.setattr(forwarding, "is_forwarded", lambda context: False)


def _hears_void_answers(patch: Patch) -> None:
    right = QuorumLink.drop

    def drop(self: QuorumLink) -> None:
        kept = self._void_up_to
        right(self)
        self._void_up_to = kept

    patch.setattr(QuorumLink, "drop", drop)


def _keeps_what_waits(patch: Patch) -> None:
    def renounce(self: ControllerDriver, reason: str) -> None:
        if self.is_active:
            self.engine.renounce()

    patch.setattr(ControllerDriver, "_renounce", renounce)


def _does_chores_on_standby(patch: Patch) -> None:
    right = PeriodicTasks._do
    is_active = ControllerDriver.is_active.fget
    under_way: list[object] = []

    async def do(self: PeriodicTasks, chore: Any) -> int:
        under_way.append(chore)
        try:
            # Its question whether it is active is asked before it waits for the first time.
            return await _begun(right(self, chore))
        finally:
            under_way.remove(chore)

    patch.setattr(PeriodicTasks, "_do", do)
    patch.setattr(ControllerDriver, "is_active", property(lambda self: bool(under_way) or is_active(self)))


async def _begun(work: Any) -> int:
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    done: int = await task
    return done


def _ignores_the_deadline(patch: Patch) -> None:
    right = Forwarding._hand_over

    async def hand_over(self: Forwarding, address: str, rpc: str, request: Any, context: Any, ends: float) -> Any:
        return await right(self, address, rpc, request, context, asyncio.get_running_loop().time() + LONG_S)

    patch.setattr(Forwarding, "_hand_over", hand_over)


def _asks_the_next_leader_whatever_befell(patch: Patch) -> None:
    right = Forwarding.serve

    async def serve(self: Forwarding, *arguments: Any, **named: Any) -> Any:
        return await right(self, *arguments, **{**named, "may_repeat": True})

    patch.setattr(Forwarding, "serve", serve)


def _answers_what_is_appended(patch: Patch) -> None:
    right = ControllerDriver.appended

    def appended(self: ControllerDriver, end_offset: Offset) -> None:
        right(self, end_offset)
        self.commit(end_offset)

    patch.setattr(ControllerDriver, "appended", appended)


def _tries_elsewhere_whatever_befell(patch: Patch) -> None:
    patch.setattr(forwarding, "UNTOUCHED", "grpc_status")


def _stays_active_when_cut_off(patch: Patch) -> None:
    patch.setattr(ControllerDriver, "cut_off", lambda self: None)


def _gives_no_session(patch: Patch) -> None:
    right = Sessions.watch

    def watch(self: Sessions, broker_id: NodeId, *, broker_epoch: int, now_ms: int) -> None:
        right(self, broker_id, broker_epoch=broker_epoch, now_ms=now_ms - 10_000)

    patch.setattr(Sessions, "watch", watch)


def _counts_its_own_absence(patch: Patch) -> None:
    patch.setattr(Attendance, "look", lambda self, now_ms: now_ms)


def _fences_whoever_cannot_be_heard(patch: Patch) -> None:
    patch.setattr(Hush, "is_on", lambda self, now_ms: False)


def _takes_heartbeats_while_it_stands_by(patch: Patch) -> None:
    patch.setattr(Standing, "refusal", property(lambda self: None))


def _takes_heartbeats_while_it_is_cut_off(patch: Patch) -> None:
    right: Any = Standing.refusal
    patch.setattr(Standing, "refusal", property(lambda self: self.other and right.fget(self)))


def _has_whoever_claims_count(patch: Patch) -> None:
    right = SessionClaim.claim

    def claim(self: SessionClaim, claimant: Claimant, **named: Any) -> Claimed:
        self._holder = None
        return right(self, claimant, **named)

    patch.setattr(SessionClaim, "claim", claim)


def _forgets_request_ids(patch: Patch) -> None:
    async def write(self: Apis, call: Call, command: Any) -> Answer:
        return await self.driver.write(call.api.name, command)

    patch.setattr(Apis, "write", write)


def _lets_twins_in(patch: Patch) -> None:
    right = SessionsAskedFor.valid_epoch

    async def valid_epoch(self: SessionsAskedFor, broker_id: NodeId | None) -> Epoch | None:
        await right(self, broker_id)
        return None

    patch.setattr(SessionsAskedFor, "valid_epoch", valid_epoch)


def _lets_writes_slip_in(patch: Patch) -> None:
    async def enter(self: DecisionQueue, lane: QueueLimit) -> None:
        pass

    patch.setattr(DecisionQueue, "enter", enter)
    patch.setattr(DecisionQueue, "leave", lambda self: None)
    patch.setattr(Engine, "_stamp", lambda self: self.epoch)


def _reads_what_is_there_in_part(patch: Patch) -> None:
    def prepare(self: Engine, asked: Undecided) -> Steps[Prepared]:
        return preparation(asked, self.state, self.next_offset, self.failed)

    patch.setattr(Engine, "_prepare", prepare)
    patch.setattr(Engine, "_stamp", lambda self: (self.epoch, self._revert_count))


def _keeps_what_is_there_in_part(patch: Patch) -> None:
    right = Engine._go_back_to

    def go_back_to(self: Engine, offset: Offset) -> None:
        if self._partial is None:
            right(self, offset)
        self._partial = None

    patch.setattr(Engine, "_go_back_to", go_back_to)


MUTANTS: Final = (
    Mutant("G1", "a read is answered without asking whether its node leads", _is_sure_of_itself, LEADING),
    Mutant("G2", "a call that was passed on is passed on again", _passes_on_what_was_passed_on),
    Mutant("G4", "who renounces keeps the appends that wait", _keeps_what_waits, LEADING),
    Mutant("G5", "chores are done on standby", _does_chores_on_standby),
    Mutant("G6", "the caller's deadline is ignored when it is handed over", _ignores_the_deadline),
    Mutant("G7", "what is appended is answered, committed or not", _answers_what_is_appended),
    Mutant("G8", "a call that may have begun is handed over again", _tries_elsewhere_whatever_befell),
    Mutant("G9", "who is cut off from its quorum node stays active", _stays_active_when_cut_off, base=300_000),
    Mutant("G10", "a new tracker gives no broker a session", _gives_no_session),
    Mutant(
        "G12",
        "a twin takes the place of any broker that the log has as fenced, session or not",
        _lets_twins_in,
        base=200_000,
    ),
    Mutant("G11", "a request that is sent again is done again", _forgets_request_ids),
    Mutant("G13", "a write slips in between two steps of a decision, and nobody notices", _lets_writes_slip_in),
    Mutant("G14", "a read sees what is applied of a write that is applied in part", _reads_what_is_there_in_part),
    Mutant("G18", "a write that a replaced leader has is handed to the next", _asks_the_next_leader_whatever_befell),
    Mutant("G15", "a write that is applied in part is not taken back", _keeps_what_is_there_in_part, base=100_000),
    Mutant("G16", "the time in which the tracker stood still is silence of the brokers", _counts_its_own_absence),
    Mutant("G17", "brokers are fenced while nobody is heard", _fences_whoever_cannot_be_heard),
    Mutant(
        "G19",
        "a heartbeat service that stands by takes heartbeats",
        _takes_heartbeats_while_it_stands_by,
        TWO,
        base=300_000,
    ),
    Mutant("G21", "who is cut from all controllers takes heartbeats", _takes_heartbeats_while_it_is_cut_off, TWO),
    Mutant("G20", "the claim of the sessions is granted to every asker", _has_whoever_claims_count, TWO, base=300_000),
)
LIVING: Final = (Mutant("G3", "answers to appends that are void are heard", _hears_void_answers),)
"""Bugs that no seed is known to meet: see "Open" in the README. A test of the services finds each of them."""
