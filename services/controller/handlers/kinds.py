"""Builds handlers from commands: one kind writes records, the other is a linearizable read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import Answer
from services.controller.api import Handler
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.reads import read_as_of, read_committed

__all__ = ["read", "read_anywhere", "read_without_leader", "written"]


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
            return await read_as_of(apis.driver, command(apis, call), as_of=call.as_of)
        return await apis.driver.query(call.api.name, command(apis, call))

    return handle


def read_without_leader(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler for a read that is linearizable on the active controller, and on a standby may be behind."""
    linearizable, known = read(command), read_anywhere(command)

    async def handle(apis: Apis, call: Call) -> Answer:
        return await (linearizable if apis.driver.is_active else known)(apis, call)

    return handle


def read_anywhere(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler for a read of what this controller has applied and knows to be committed, active or standby.

    It waits for nobody, and may be behind, as in Kafka.
    """

    async def handle(apis: Apis, call: Call) -> Answer:
        return await read_committed(apis.driver, command(apis, call))

    return handle
