"""What most handlers are: a command that is written, or one that is read."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from kraft import Uuid
from quorate.controller.decision import Command
from quorate.controller.engine import Answer, Lane
from services.controller.apis import Apis
from services.controller.call import Call

__all__ = ["Handler", "random_id", "read", "to_the_end", "written"]

Handler: TypeAlias = Callable[[Apis, Call], Awaitable[Answer]]
"""Raises ApiError to refuse a request as a whole."""


def written(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Nothing has to be asked of anybody else first."""

    async def handle(apis: Apis, call: Call) -> Answer:
        return await apis.write(call, command(apis, call))

    return handle


def read(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """What is acknowledged is seen: of a leader that has been replaced unheard nothing is told."""

    async def handle(apis: Apis, call: Call) -> Answer:
        await apis.quorum.confirm(apis.driver.leader_epoch)
        if call.as_of is not None:
            return apis.driver.read(command(apis, call), as_of=call.as_of)
        return await apis.driver.write(call.rpc, command(apis, call), lane=Lane.ADMIN)

    return handle


async def to_the_end(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Also when nobody waits for the answer any more: half of a change in turns helps nobody."""
    return await asyncio.shield(asyncio.ensure_future(work))


def random_id() -> Uuid:
    """Of something new."""
    return Uuid(secrets.token_bytes(16))
