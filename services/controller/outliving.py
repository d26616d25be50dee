"""Work that outlives its caller: a change of several writes must not stop halfway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from quorate.errors import ApiError
from quorate.runtime.logging.logs import logger

__all__ = ["to_the_end"]

T = TypeVar("T")

log = logger(__name__)


async def to_the_end(work: Awaitable[T]) -> T:
    """Returns the result of `work`, which runs to its end even if the caller is cancelled. Raises as `work` does.

    A cancelled caller gets its CancelledError at once; then an error of `work` is only logged.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # Nobody is left to hear how it ends, and asyncio would report an exception as never retrieved.
        running.add_done_callback(_note_end)
        raise
    finally:
        del running  # else an error, whose traceback has this frame, and the request, would keep each other


def _note_end(running: asyncio.Future[Any]) -> None:
    if running.cancelled():
        return
    failure = running.exception()
    if isinstance(failure, ApiError):
        log.debug("refused when the caller had gone", code=failure.code.name, reason=failure.message)
    elif failure is not None:
        log.error("unexpected error", exception=failure)
