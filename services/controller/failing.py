"""Failpoints of the active controller's writes, for tests: a decision raises, or a record cannot be encoded or applied.

They are `controller.deciding`, `controller.encoding` and `controller.applying` in QUORATE_FAILPOINTS, action `eio`.
"""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from kraft import Message
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, steps_of
from quorate.controller.engine.steps import Steps
from quorate.metadata.state import ClusterState
from quorate.records import FeatureLevelRecord, FenceBrokerRecord
from quorate.storage.failpoints import any_is_set, reach

__all__ = ["failing"]

T = TypeVar("T")

WITHOUT_BYTES: Final = FeatureLevelRecord("planted", 1 << 40)
"""A record that cannot be encoded: a feature level is an int16."""
WITHOUT_PLACE: Final = FenceBrokerRecord(-1, -1)
"""A record that cannot be applied: no broker has this id."""


def failing(command: Command[T]) -> Command[T]:
    """Wraps a command so that it fails at the failpoints that a test has set; returns it as it is if none is set."""
    if not any_is_set():
        return command

    @CommandInSteps
    def decide(state: ClusterState, moment: Moment) -> Steps[Decision[T]]:
        reach("controller.deciding")
        decision = yield from steps_of(command, state, moment)
        planted = (*_at("controller.encoding", WITHOUT_BYTES), *_at("controller.applying", WITHOUT_PLACE))
        return replace(decision, records=(*decision.records, *planted)) if planted else decision

    return decide


def _at(place: str, record: Message) -> tuple[Message, ...]:
    try:
        reach(place)
    except OSError:
        return (record,)
    return ()
