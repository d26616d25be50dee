"""What a job's exit code says."""

from __future__ import annotations

from typing import Final

__all__ = ["DONE", "FAILED", "FOUND"]

DONE: Final = 0
FOUND: Final = 1
"""It ran, and there is something wrong: damage, a gap, differences."""
FAILED: Final = 2
"""It could not run."""
