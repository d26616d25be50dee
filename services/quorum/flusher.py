"""The flush thread, part of group commit: it waits for the disk, so that the event loop does not.

It is a daemon thread. A disk may hang for ever, and then the process must still be able to end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, NamedTuple

from quorate.storage.disk_log import Flush

NAME: Final = "flusher"

Done = Callable[[Exception | None], None]
"""Called on the event loop when a flush is done, with None or its error."""


class Flushing(NamedTuple):
    """The running flush, with its batches and start time (ns) for the spans."""

    flush: Flush
    batches: tuple[bytes, ...]
    start_ns: int


class Flusher:
    """Waits for flushes one after the other in its own thread, which wakes up twice as fast as a pool's thread."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Flush, Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread; callbacks run on the running event loop."""
        assert self._thread is None, "one thread waits for the disk: flushes end in their order"
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name=NAME, daemon=True)
        self._thread.start()

    def wait_for(self, flush: Flush, done: Done) -> None:
        """Queues a flush for the thread to wait for; then `done` is called on the event loop with None or an error."""
        assert self._thread is not None, "nobody would ever wait for it"
        self._work.put((flush, done))

    def stop(self) -> None:
        """Tells the thread to end after all queued flushes, and returns at once."""
        self._work.put(None)

    async def stopped(self) -> None:
        """Waits until the thread has ended after `stop`, so that the files can be closed."""
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (work := self._work.get()) is not None:
            flush, done = work
            _tell(loop, done, _error_of(flush.wait))


def _error_of(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:  # for `done`, which answers
        return error
    return None


def _tell(loop: asyncio.AbstractEventLoop, done: Done, error: Exception | None) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody has waited so long
        loop.call_soon_threadsafe(done, error)
