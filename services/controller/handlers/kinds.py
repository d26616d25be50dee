"""Builds handlers from commands: one kind writes records, the other is a linearizable read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorate.controller.engine.decision import Command, Moment
from quorate.controller.engine.engine import Answer
from services.controller.api import Handler
from services.controller.apis import Apis
from services.controller.call import Call

__all__ = ["read", "read_anywhere", "written"]


def written(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler that writes what `command` decides, for APIs that need no other service first."""

    async def handle(apis: Apis, call: Call) -> Answer:
        return await apis.write(call, command(apis, call))

    return handle


def read(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler for a linearizable read (ReadIndex): a majority confirms the leader before the state is read.

    A replaced leader therefore answers NOT_CONTROLLER, never old state.
    """

    async def handle(apis: Apis, call: Call) -> Answer:
        await apis.quorum.confirm(apis.driver.leader_epoch)
        if call.as_of is not None:
            return apis.driver.read(command(apis, call), as_of=call.as_of)
        return await apis.driver.query(call.api.name, command(apis, call))

    return handle


def read_anywhere(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler for a read that a standby answers, too, from what it has replayed: it may be behind."""
    linearizable = read(command)

    async def handle(apis: Apis, call: Call) -> Answer:
        if apis.driver.is_active:
            return await linearizable(apis, call)
        engine = apis.driver.engine  # on a standby its state is committed
        moment = Moment(next_offset=engine.next_offset, now_ms=apis.driver.applied_at_ms)
        decision = command(apis, call)(engine.state, moment)
        assert not decision.records, decision.records
        return Answer(token=None, response=decision.response, epoch=apis.driver.leader_epoch, offset=engine.next_offset)

    return handle
