"""How long a call may take that has no deadline, and its caller to take a part of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from google.protobuf.message import Message

from quorate.errors import ApiError, ErrorCode

__all__ = ["capped", "give"]


async def give(context: Any, part: Message | bytes, within_s: float | None) -> None:
    """Sends a part of an answer, a message or its bytes, once the caller has room for it.

    `within_s` is the limit in s, None for no limit.
    Raises ApiError(REQUEST_TIMED_OUT) if it has none within that time, and what gRPC's `write` raises.
    """
    if within_s is None:
        await context.write(part)
        return
    try:
        async with asyncio.timeout(within_s):
            await context.write(part)
    except TimeoutError:
        message = f"a part of the answer was not taken within {within_s:g} s; a new call goes on from what was read"
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message) from None


async def capped(behavior: Awaitable[Message | None], cap_s: float) -> Message | None:
    """Awaits a handler and returns its answer, for a call without a deadline.

    After `cap_s` (s) the handler is cancelled, and ApiError(REQUEST_TIMED_OUT) is raised.
    """
    try:
        async with asyncio.timeout(cap_s) as cap:
            return await behavior
    except TimeoutError:
        if not cap.expired():
            raise
    message = f"the call set no deadline and took longer than the {cap_s:g} s that such a call may take"
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message, {"deadline_cap_ms": f"{cap_s * 1000:.0f}"})
