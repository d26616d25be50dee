"""How long a connection may answer nothing before it is left for another: a slow server looks like a dead one.

Each connection costs the server a handshake or a login, which is the last thing that a slow one needs.
"""

from __future__ import annotations

import asyncio
from typing import Final

__all__ = ["GROWS_TO", "Patience"]

GROWS_TO: Final = 4
"""So many times as long as the first may the last ones be silent, twice as long each, until an answer comes in time."""


class Patience:
    """How long a caller bears with a connection that answers nothing, before it closes it and opens another.

    The first may be silent for `first_s` (s), each further one for twice as long as the one before, up to `GROWS_TO`
    times `first_s`, until an answer comes in time.
    """

    __slots__ = ("_first_s", "_now_s")

    def __init__(self, first_s: float) -> None:
        assert first_s > 0, first_s
        self._first_s = self._now_s = first_s

    def runs_out(self, *, silent_since: float) -> bool:
        """Returns whether a connection is to be left that has answered nothing since then (s, the loop's clock).

        If so, the one after it may be silent for twice as long.
        """
        if asyncio.get_running_loop().time() < silent_since + self._now_s:
            return False
        self._now_s = min(2 * self._now_s, GROWS_TO * self._first_s)
        return True

    def answered(self) -> None:
        """Notes that an answer has come in time: the next silence may last `first_s` again."""
        self._now_s = self._first_s
