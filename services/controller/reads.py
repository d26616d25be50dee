"""Reads of a state that is committed, on any controller: the last one that it knows, or one that the timeline keeps."""

from __future__ import annotations

from contextlib import closing
from typing import TypeVar

from quorate.controller.engine.decision import Command, Decision, Moment, steps_of
from quorate.controller.engine.engine import Answer, Engine, QueueLimit
from quorate.controller.engine.failures import Where
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.logging.logs import logger
from services.controller.driver import ControllerDriver
from services.controller.pages import not_kept

__all__ = ["read_as_of", "read_committed", "read_in_steps"]

log = logger(__name__)
T = TypeVar("T")


async def read_committed(driver: ControllerDriver, command: Command[T]) -> Answer:
    """Runs a read on the last committed state that this controller has, active or standby; it asks nobody.

    It is without the records of an open metadata transaction (KIP-868). Raises ApiError.
    """
    engine = driver.engine
    offset = _stable_offset(engine)
    if not offset:  # nothing is loaded yet, and a snapshot that is being loaded clears the state once more
        return _answered(driver, command(ClusterState(), Moment(next_offset=0, now_ms=driver.applied_at_ms)), 0)
    registry = engine.state.registry
    if offset not in registry:
        registry.create(offset)
    registry.hold(offset)
    try:
        return await read_as_of(driver, command, as_of=offset)
    finally:
        registry.release(offset)


async def read_in_steps(driver: ControllerDriver, command: Command[T]) -> Answer:
    """Runs a long read beside the writes of the active controller: on the last committed state when its turn comes.

    Linearizable if the leadership was confirmed since the read has come: what anybody was answered before is committed
    and in that state, and nothing else is. If it took its turn among the writes, a caller that may list topics could
    hold up the fencing of brokers. Raises ApiError: REQUEST_TIMED_OUT if too many wait, NOT_CONTROLLER.
    """
    await driver.long_reads.enter(QueueLimit.ADMIN)
    try:
        return await read_committed(driver, command)
    except ApiError as refusal:
        if refusal.code is not ErrorCode.SNAPSHOT_NOT_FOUND:
            raise
        raise ApiError(
            ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the read was over"
        ) from None
    finally:
        driver.long_reads.leave()


async def read_as_of(driver: ControllerDriver, command: Command[T], *, as_of: Offset) -> Answer:
    """Runs a read on the state after all records below `as_of`, in turns of the loop; it asks nobody.

    Raises ApiError; SNAPSHOT_NOT_FOUND if the timeline does not hold the state, or no longer. A read that fails by a
    fault of its own costs nobody else anything.
    """
    moment = Moment(next_offset=as_of, now_ms=driver.applied_at_ms)
    try:
        decision = await in_turns(_while_held(driver.engine, command, moment))
    except ApiError:
        raise
    except Exception as cause:  # as in the engine
        log.error("a read has failed", exception=cause, as_of=as_of)
        raise driver.engine.failed(Where.READING, cause, f"at offset {as_of}") from cause
    return _answered(driver, decision, as_of)


def _answered(driver: ControllerDriver, decision: Decision[T], offset: Offset) -> Answer:
    assert not decision.records, decision.records
    return Answer(token=None, response=decision.response, epoch=driver.leader_epoch, offset=offset)


def _stable_offset(engine: Engine) -> Offset:
    """Returns the end of what is committed and in no open transaction; 0 if nothing is loaded."""
    offset = engine.first_uncommitted()
    state = engine.state if offset == engine.next_offset else engine.state.at(offset)
    open_now = state.transactions.open
    return offset if open_now is None else open_now.start


def _while_held(engine: Engine, command: Command[T], moment: Moment) -> Steps[Decision[T]]:
    """Runs a command in its steps on the state at `moment`. Raises ApiError(SNAPSHOT_NOT_FOUND) once it is dropped."""
    registry, offset = engine.state.registry, moment.next_offset
    if not registry.is_held(offset):
        raise not_kept(offset)
    with closing(steps_of(command, engine.state.at(offset), moment)) as steps:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                decision: Decision[T] = end.value
                return decision
            yield
            if not registry.is_held(offset):
                raise not_kept(offset)
