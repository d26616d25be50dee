"""Waiting for what a cluster does by itself; bounds are against hanging alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.kube.places import say

PATIENCE_S: Final = 180
Found = TypeVar("Found")


def until(what: str, look: Callable[[], Found], *, patience_s: float = PATIENCE_S, every_s: float = 0.25) -> Found:
    """The first answer that is true, and a line that says how long it took. Raises SystemExit if there is none."""
    begun = time.monotonic()
    while not (found := look()):
        if time.monotonic() > begun + patience_s:
            raise SystemExit(f"not so after {patience_s:.0f} s: {what}")
        time.sleep(every_s)
    say(f"{what} ({time.monotonic() - begun:.1f} s)")
    return found
