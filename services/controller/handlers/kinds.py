"""A row of the table: an API and its handler. Handlers made from commands: a kind writes, another is a read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from quorate.controller.engine.decision import Command, CommandInSteps
from quorate.controller.engine.engine import Answer
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.reads import read_as_of, read_committed, read_in_steps

__all__ = ["Handler", "Row", "read", "read_anywhere", "read_without_leader", "written"]

Handler: TypeAlias = Callable[[Apis, Call], Awaitable[Answer]]
"""Serves one call; raises ApiError to refuse it as a whole."""


class Row(NamedTuple):
    """An API, and its handler on the active controller."""

    api: Api
    handler: Handler


def written(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler that writes what `command` decides, for APIs that need no other service first."""

    def handle(apis: Apis, call: Call) -> Awaitable[Answer]:
        return apis.write(call, command(apis, call))

    return handle


def read(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Makes a handler for a linearizable read (ReadIndex): a majority confirms the leader before the state is read.

    A replaced leader therefore answers NOT_CONTROLLER, never old state.
    """

    async def handle(apis: Apis, call: Call) -> Answer:
        await apis.quorum.confirm(apis.driver.leader_epoch)
        deciding = call.deciding(command(apis, call))
        if call.as_of is not None:
            return await read_as_of(apis.driver, deciding, as_of=call.as_of)
        if isinstance(deciding, CommandInSteps):
            return await read_in_steps(apis.driver, deciding)
        return await apis.driver.query(call.api.name, deciding)

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
        return await read_committed(apis.driver, call.deciding(command(apis, call)))

    return handle
