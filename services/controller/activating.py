"""The activation of an active controller, as its driver runs it: a refusal is a failure, as no caller gets it."""

from __future__ import annotations

import asyncio

from quorate.controller.engine.decision import Command, Decision, Moment, check_size
from quorate.controller.engine.encoding import encoding
from quorate.controller.engine.engine import Answer
from quorate.controller.engine.steps import finished
from quorate.errors import ApiError
from quorate.metadata.state import ClusterState
from quorate.runtime.logging.logs import logger

log = logger(__name__)

__all__ = ["NotActivated", "report_activation", "unrefused"]


class NotActivated(Exception):
    """Raised when the activation command, which writes the first records of an epoch, refuses."""


def unrefused(activation: Command[None]) -> Command[None]:
    """Wraps the activation command: a refusal (ApiError) becomes NotActivated, also that of too many or large records.

    An epoch cannot go on without them: nothing else would write a metadata.version.
    """

    def activate(state: ClusterState, moment: Moment) -> Decision[None]:
        try:
            decision = activation(state, moment)
            check_size(decision)
            if decision.records:
                finished(encoding(decision.records, state.features.record_level, traceparent=None, mark=None))
            return decision
        except ApiError as refusal:
            raise NotActivated(str(refusal)) from refusal

    return activate


def report_activation(answered: asyncio.Future[Answer]) -> None:
    """Logs that the activation records were not committed; a callback of their future."""
    if not answered.cancelled() and (error := answered.result().error) is not None:
        log.warning("not activated", reason=str(error))
