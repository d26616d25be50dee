"""Prints a job's progress on stderr: one line for each finished step, with its duration in seconds."""

from __future__ import annotations

import sys
import time

__all__ = ["Steps", "say"]


class Steps:
    """Measures steps: each begins where the one before ended."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def done(self, line: str) -> None:
        """Prints a line about a finished step, with the seconds since the step before."""
        now = time.monotonic()
        say(f"{now - self._began:6.1f} s  {line}")
        self._began = now


def say(line: str) -> None:
    """Prints a line on stderr without a duration: a problem or an observation."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
