"""Threads for work that may hang, such as a write to a disk or to a database: a process ends without them.

Python waits for the threads of an ordinary pool before it ends, and so for a disk that hangs for ever.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

__all__ = ["DaemonThreads"]

THREADS_MAX: Final = min(32, (os.cpu_count() or 1) + 4)
"""As many as asyncio's own pool has at most."""

T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """Does work in daemon threads, in the order in which it comes; a thread ends once there is no more.

    It is a ThreadPoolExecutor only because asyncio takes no other kind as its default. With `threads_max` 1 the work is
    done one after the other.
    """

    def __init__(self, threads_max: int = THREADS_MAX, name: str = "worker") -> None:
        assert threads_max > 0, threads_max
        super().__init__()
        self._name = name
        self._threads_max = threads_max
        self._guard = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._thread_count = 0

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Queues a call, and returns the future that gets its result or its exception."""
        future: Future[T] = Future()
        with self._guard:
            self._waiting.append((future, partial(fn, *args, **kwargs)))
            begins = self._thread_count < self._threads_max
            self._thread_count += begins
        if begins:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing: queued calls still run. A caller that needs the end of some work awaits that."""

    def _run(self) -> None:
        while (work := self._next()) is not None:
            future, call = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # the caller that waits for it handles it
                future.set_exception(error)
            else:
                future.set_result(result)

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._guard:
            if self._waiting:
                return self._waiting.popleft()
            self._thread_count -= 1
            return None
