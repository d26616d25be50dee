"""Estimates how much a job will read; few records get another Spark session, so this is known before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.pipeline.log_files import find

__all__ = ["FEW_BYTES", "are_few"]

FEW_BYTES: Final = 8 << 20
"""Size limit of a small input in bytes of logs: about 100,000 records."""
PACKED: Final = 8
"""How many times smaller records are in Parquet than in the log."""


def are_few(tables: str, source: str | None, spans: str | None) -> bool:
    """Returns whether logs, spans and what bronze holds of them come to at most FEW_BYTES.

    Returns False if that is not known: the files are not on this machine, or the spans are in a database server.
    """
    if any("://" in each for each in (tables, source or "", spans or "")):
        return False
    try:
        logs = sum(_size(Path(place.path)) for place in find([source])) if source else 0
        return logs + (_below(Path(spans)) if spans else 0) + PACKED * _below(Path(tables) / "bronze") <= FEW_BYTES
    except OSError:
        return False


def _below(path: Path) -> int:
    return sum(map(_size, path.rglob("*"))) if path.is_dir() else _size(path)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
