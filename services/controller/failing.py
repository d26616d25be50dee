"""Failpoints of the active controller's writes, for tests: a decision raises, or a record cannot be encoded or applied.

They are `controller.deciding`, `controller.encoding` and `controller.applying` in QUORATE_FAILPOINTS, action `eio`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kraft import Message
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, steps_of
from quorate.controller.engine.engine import Answer
from quorate.controller.engine.steps import Steps
from quorate.metadata.state import ClusterState
from quorate.records import FeatureLevelRecord, FenceBrokerRecord
from quorate.storage.failpoints import reach
from services.controller.driver import ControllerDriver

__all__ = ["FailingDriver"]

T = TypeVar("T")

WITHOUT_BYTES: Final = FeatureLevelRecord("planted", 1 << 40)
"""A record that cannot be encoded: a feature level is an int16."""
WITHOUT_PLACE: Final = FenceBrokerRecord(-1, -1)
"""A record that cannot be applied: no broker has this id."""


class FailingDriver(ControllerDriver):
    """A driver whose writes fail at the failpoints that a test has set."""

    async def begin(self, api: str, command: Command[T], *arguments: Any, **named: Any) -> asyncio.Future[Answer]:
        return await super().begin(api, _failing(command), *arguments, **named)


def _failing(command: Command[T]) -> Command[T]:
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
