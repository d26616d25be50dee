"""The loop of a program that starts processes of its own: SIGTERM ends them, as Ctrl-C does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` on the loop that the services run on; SIGTERM cancels it, and so its children end with it."""
    try:
        import uvloop
    except ImportError:
        new_loop = asyncio.new_event_loop
    else:
        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_ended_by_sigterm(main))


async def _ended_by_sigterm(main: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(main)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
