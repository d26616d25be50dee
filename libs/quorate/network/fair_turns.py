"""Turns at work of which only so much is done at once: each address in turn, and in it each name in turn.

So who asks a thousand times waits for its own requests, and somebody else for one of them. Of the names of an
address every second turn is for the one that came last: who asks by a thousand names holds up the next for two of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

__all__ = ["LARGE_AT_ONCE", "LOGINS_AT_ONCE", "FairTurns", "InTurns", "in_turns"]

LARGE_AT_ONCE: Final = 2
"""How many large requests have their turn in a process at once: each may take some 40 MB."""
LOGINS_AT_ONCE: Final = 8
"""How many messages of logins a process has another one answer at once; that takes 2 to 5 ms each."""

T = TypeVar("T")


class InTurns(Protocol):
    """The type of `in_turns`: runs a generator's steps in turns of the event loop, so that others run in between."""

    async def __call__(self, steps: Generator[None, None, T]) -> T:
        """Returns its result. Raises what the steps raise."""


class _Names:
    """The waiting requests of one address, by name: in a row, and beside it those that have had no turn yet."""

    __slots__ = ("_fresh", "_is_for_newest", "rows")

    def __init__(self) -> None:
        self.rows: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._fresh: OrderedDict[str, None] = OrderedDict()
        self._is_for_newest = False

    def add(self, name: str, turn: asyncio.Future[None]) -> None:
        if name not in self.rows:
            self.rows[name] = deque()
            self._fresh[name] = None
        self.rows[name].append(turn)

    def next(self) -> asyncio.Future[None]:
        """Takes the first of the name whose turn it is, and puts the name at the end of the row."""
        name = next(reversed(self._fresh) if self._is_for_newest and self._fresh else iter(self.rows))
        self._is_for_newest = not self._is_for_newest
        self._fresh.pop(name, None)
        turns = self.rows.pop(name)
        turn = turns.popleft()
        if turns:
            self.rows[name] = turns
        return turn


class FairTurns:
    """Lets at most `at_once` pieces of work run at once. The others wait for their turn.

    The addresses get turns one after the other, and so do the names of one address: many of one hold up no other.
    """

    def __init__(self, at_once: int) -> None:
        assert at_once > 0, at_once
        self._free = at_once
        self._waiting: OrderedDict[str, _Names] = OrderedDict()

    @asynccontextmanager
    async def turn(self, host: str, name: str = "") -> AsyncIterator[None]:
        """Waits until work for this address and name may run; its turn ends with the block."""
        await self.begin(host, name)
        try:
            yield
        finally:
            self.end()

    async def begin(self, host: str, name: str = "") -> None:
        """Waits for a turn; `end` has to follow, unless this is cancelled."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, _Names()).add(name, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had just been given
                self.end()
            raise

    def end(self) -> None:
        """Ends a turn that `begin` has waited for, and gives it to the next that waits, if any."""
        while self._waiting:
            turn = self._next()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _next(self) -> asyncio.Future[None]:
        """Takes the first of the address whose turn it is, and puts the address at the end of the row."""
        host, names = self._waiting.popitem(last=False)
        turn = names.next()
        if names.rows:
            self._waiting[host] = names
        return turn


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Runs a generator's steps, each in its own turn of the event loop. Returns its result. Raises what it raises."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        await asyncio.sleep(0)
