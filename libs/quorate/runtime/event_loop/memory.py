"""How a service's process takes memory, and gives it back: the garbage collector's pace, and glibc's malloc."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from pathlib import Path
from typing import Final

__all__ = ["GROWN_BYTES", "FreeMemory", "give_back", "tune_memory"]

YOUNG_MAX: Final = 10_000
"""New objects before the garbage collector runs: a thousand concurrent calls have as many."""
M_ARENA_MAX: Final = -8
"""The parameter of glibc's mallopt(3)."""
ARENAS: Final = 2
"""One for the event loop, one for gRPC's threads. By default glibc has eight for each processor, and returns little of
them: after 75 s of announced giants (tests/fuzz/storms.py) a placer had 565 MiB; with two, 423."""

PERIOD_S: Final = 5.0
GROWN_BYTES: Final = 8 << 20
"""Growth from which on there is something to give back: one or two large requests."""
LOOKS: Final = 12
"""How often it is given back after a growth: what is in use at the first look may be free at a later one (1 min)."""


def tune_memory() -> None:
    """Has this process collect garbage less often, and glibc use two arenas: call it before there are other threads.

    Objects of this moment (imports) are not scanned by the garbage collector again, which took a third of a busy
    service. Another C library than glibc has no mallopt, or refuses the parameter; nothing changes there.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)


class FreeMemory:
    """Gives memory that was freed, and that glibc keeps, back to the system; glibc itself gives the end of a heap only.

    Each large request leaves a few MiB between what is still in use: after refused requests of 4 MiB a service of 60
    MiB had 120 for good, and more with more callers at once; 70 once it was given back, which took 2 to 45 ms.
    """

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._resident = _resident_bytes()
        self._looks_left = 0

    @property
    def is_kept(self) -> bool:
        """Whether the C library is glibc, which keeps freed memory, and the system tells how much a process has."""
        return self._trim is not None and self._resident > 0

    def look(self) -> bool:
        """Gives free memory back if the process has grown by `GROWN_BYTES` at this or one of the last `LOOKS` looks.

        Returns whether it did. It blocks for 2 to 45 ms then.
        """
        if _resident_bytes() > self._resident + GROWN_BYTES:
            self._looks_left = LOOKS
        if self._trim is None or not self._looks_left:
            return False
        self._looks_left -= 1
        self._trim(0)
        self._resident = _resident_bytes()
        return True


async def give_back() -> None:
    """Gives free memory back to the system every 5 s, in a thread, until cancelled; without glibc returns at once."""
    free = FreeMemory()
    while free.is_kept:
        await asyncio.sleep(PERIOD_S)
        await asyncio.to_thread(free.look)


def _resident_bytes() -> int:
    """The bytes that this process has in memory; 0 where the system does not say (proc_pid_statm(5))."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
