"""Calls beyond a limit are refused a few at a time, so that who makes thousands of them is not served before others.

To refuse a call costs half of what it costs to serve a small one. A caller with many connections has thousands of calls
in the queue in which gRPC has those of everybody, in the order in which they came: if each is refused as soon as it is
seen, somebody else's call waits for all of that. A call that waits here also keeps its place among the streams that its
connection may have open, and its caller from making the next one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

__all__ = ["KEPT_BYTES", "LateRefusals"]

KEPT_BYTES: Final = 1 << 10
"""A call with a larger request is refused at once: the request stays in memory until then."""


class LateRefusals:
    """Delays the refusals of calls beyond a limit: `at_once` calls in a row do not wait, and then `per_s` (1/s) go on.

    While `waiting_max` calls wait, further ones do not.
    """

    def __init__(self, *, at_once: int, per_s: float, waiting_max: int) -> None:
        assert per_s > 0, per_s
        self._ahead_s, self._pause_s, self._waiting_max = at_once / per_s, 1 / per_s, waiting_max
        self._waiting = 0
        self._next = float("-inf")
        """When (the loop's time) the next call would be refused if there were no `at_once`."""

    async def turn(self, request: Any) -> None:
        """Waits until a call may be refused; the caller refuses it then. `request` is what gRPC gives its handler.

        Returns at once if `waiting_max` calls wait already, or for a request of more than `KEPT_BYTES`.
        """
        if self._waiting >= self._waiting_max or (request.__class__ is bytes and len(request) > KEPT_BYTES):
            return
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._ahead_s) + self._pause_s
        if self._next <= now:
            return
        self._waiting += 1
        try:
            await asyncio.sleep(self._next - now)
        finally:
            self._waiting -= 1
