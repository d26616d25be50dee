"""Measures how long single callbacks block the event loop, in processor time, by a timer.

A wrapper around every callback would cost 3 µs each, a third of a small one. A timer costs nothing in between: if it
fires late, a callback blocked the loop, and the thread's processor time since the timer before is its
duration. That is up to `PERIOD_S` too much, never too little; a loop that only waits for a busy machine uses no
processor time. Blocks of `PERIOD_S` + `LEAST_S` or more are always seen, shorter ones only if a timer falls into them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["LEAST_S", "PERIOD_S", "watch_holds"]

PERIOD_S: Final = 0.01
LEAST_S: Final = 0.005
"""A timer that is late by less than this, in seconds, counts as on time."""


async def watch_holds(note: Callable[[float], None]) -> None:
    """Calls `note` with the processor time (s) of each time that the event loop was blocked, until it is cancelled.

    Each is at least `LEAST_S`; up to `PERIOD_S` of it may have been before the block.
    """
    loop = asyncio.get_running_loop()
    while True:
        due_s, computed_s = loop.time() + PERIOD_S, time.thread_time()
        await asyncio.sleep(PERIOD_S)
        held_s = time.thread_time() - computed_s
        if loop.time() - due_s >= LEAST_S and held_s >= LEAST_S:
            note(held_s)
