"""How the cost of work grows with what it is given: by CPU time, at sizes so far apart that no other load blurs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final

STEP: Final = 8
"""From one size to the next: work in linear time then costs 8 times as much, in quadratic time 64 times."""
GROWTH_MAX: Final = 24
"""Between the two, so that a processor that is three times as slow for a while changes no verdict."""
LEAST_S: Final = 0.0005
"""Less is noise of the clock and of what is set up once."""
TRIES: Final = 5


def cpu_s(work: Callable[[], object]) -> float:
    """The least CPU time of some tries, in s; work that takes long is not tried again."""
    least = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
        if least > 1:
            break
    return least


def grows_faster_than_its_input(work_of: Callable[[int], Callable[[], object]], sizes: tuple[int, ...]) -> str | None:
    """Which step costs more than the larger input explains, or None; it stops there, as the next might never end."""
    assert all(large == STEP * small for small, large in pairwise(sizes)), sizes
    before_s = cpu_s(work_of(sizes[0]))
    for size in sizes[1:]:
        work = work_of(size)
        cost_s = cpu_s(work)
        if cost_s > GROWTH_MAX * max(before_s, LEAST_S / STEP):
            return f"{size // STEP}: {before_s:.4f} s of CPU, {size}: {cost_s:.4f} s"
        before_s = cost_s
    return None
