"""How much one turn of the event loop does, counted in calls of functions: that repeats on a busy machine."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def calls_in_a_turn() -> Iterator[list[int]]:
    """Notes how many functions one turn of the loop calls at most."""
    loop, most, calls, goes_on = asyncio.get_running_loop(), [0], 0, True

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def look() -> None:
        nonlocal calls
        most[0], calls = max(most[0], calls), 0
        if goes_on:
            loop.call_soon(look)

    before, root = sys.getprofile(), logging.getLogger()
    # Earlier tests may have left handlers of logs; one whose stream is closed takes thousands of calls to tell that.
    handlers, root.handlers = root.handlers, []
    loop.call_soon(look)
    sys.setprofile(note)
    try:
        yield most
    finally:
        sys.setprofile(before)
        root.handlers = handlers
        goes_on, most[0] = False, max(most[0], calls)  # what ends in its first turn has been looked at nowhere else
