"""Work for which the loop has no time, in a thread: a task that is cancelled waits for its end all the same.

At a stop the same files are written again, and then the directories are unlocked: a thread may not write any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Runs `work` in a thread; returns its result, or raises its error. When cancelled, it waits for the thread first.

    An error of the thread is raised then, too: the system reports a failed write only once.
    """
    done = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        if (failure := done.exception()) is not None:
            raise failure from None
        raise
