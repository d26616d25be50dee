"""The exit codes of the pipeline's commands."""

from __future__ import annotations

from typing import Final

__all__ = ["DONE", "FAILED", "FOUND"]

DONE: Final = 0
FOUND: Final = 1
"""The job ran and found damage, a gap, or differences."""
FAILED: Final = 2
"""The job could not run."""
