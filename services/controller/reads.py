"""Reads of a state that is committed, on any controller: the last one that it knows, or one that the timeline keeps."""

from __future__ import annotations

from contextlib import closing
from typing import TypeVar

from quorate.controller.engine.decision import Command, Decision, Moment, steps_of
from quorate.controller.engine.engine import Answer, Engine
from quorate.controller.engine.steps import Steps
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.runtime.turns import in_turns
from services.controller.driver import ControllerDriver
from services.controller.pages import not_kept

__all__ = ["read_as_of", "read_committed"]

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


async def read_as_of(driver: ControllerDriver, command: Command[T], *, as_of: Offset) -> Answer:
    """Runs a read on the state at `as_of`, in turns. Raises ApiError; SNAPSHOT_NOT_FOUND if it is not held."""
    decision = await in_turns(
        _while_held(driver.engine, command, Moment(next_offset=as_of, now_ms=driver.applied_at_ms))
    )
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
