"""A time limit for a block of a task, as `asyncio.timeout`, on a loop that is known.

On CPython 3.11 asyncio's own asks for the running loop three times, each a call of `getpid` of the kernel (3.12 makes
none), and its entry and its exit are coroutines.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

__all__ = ["Limit"]


class Limit:
    """A `with` block that ends with TimeoutError at the time `when` of the loop's clock (s); None for no limit.

    It cancels the task at that time, so a block that awaits nothing is not ended.
    """

    __slots__ = ("_cancelling", "_loop", "_task", "_timer", "has_expired", "when")

    def __init__(self, loop: asyncio.AbstractEventLoop, when: float | None) -> None:
        self.when = when
        self.has_expired = False
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancelling = 0

    def __enter__(self) -> None:
        if self.when is None:
            return
        self._task = asyncio.current_task(self._loop)
        assert self._task is not None, "a limit is of a task"
        self._cancelling = self._task.cancelling()
        self._timer = self._loop.call_at(self.when, self._expire)

    def lift(self) -> None:
        """Ends the limit; the block goes on without. Has no effect once the limit has expired."""
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        assert self._task is not None, "the block is not over"
        self.has_expired = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises TimeoutError in place of the cancellation, unless somebody else has cancelled the task as well."""
        self.lift()
        task, self._task, self._timer = self._task, None, None
        if self.has_expired:
            assert task is not None, "it has expired in its block"
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error
