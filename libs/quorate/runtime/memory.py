"""How a service's process takes memory: the pace of the garbage collector, and the arenas of glibc's malloc."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

__all__ = ["tune_memory"]

YOUNG_MAX: Final = 10_000
"""New objects before the garbage collector runs: a thousand concurrent calls have as many."""
M_ARENA_MAX: Final = -8
"""The parameter of glibc's mallopt(3)."""
ARENAS: Final = 2
"""One for the event loop, one for gRPC's threads. By default glibc has eight for each processor, and returns little of
them: after 75 s of announced giants (tests/fuzz/storms.py) a placer had 565 MiB; with two, 423."""


def tune_memory() -> None:
    """Tunes a process that is about to serve: call it before there are other threads.

    Imported objects are not scanned by the garbage collector again, which took a third of a busy service. Another C
    library than glibc has no mallopt, or refuses the parameter; nothing changes there.
    """
    gc.freeze()
    gc.set_threshold(YOUNG_MAX)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)
