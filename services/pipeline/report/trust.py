"""The report's statement on its own correctness: whether the replayed log equals the checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from services.pipeline.report.parts import Note
from services.pipeline.tables import Tables
from services.pipeline.verify import COMPARED, VERIFY

__all__ = ["Trust", "read_trust", "trust_line"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How many checkpoints were compared and how many rows differ; both None if `verify` was not run."""

    compared: int | None
    differences: int | None


def read_trust(tables: Tables) -> Trust:
    """Reads the results of the last `verify`."""
    found, differences = tables.read(f"{VERIFY}/checkpoints"), tables.read(f"{VERIFY}/differences")
    if found is None:
        return Trust(compared=None, differences=None)
    compared = found.where(found["verdict"] == COMPARED).count()
    # A table without rows may have no file, so it cannot be read.
    return Trust(compared=compared, differences=0 if differences is None else differences.count())


def trust_line(trust: Trust) -> Note:
    """Writes the result of `verify` as a sentence."""
    if trust.compared is None:
        return Note("The replay has not been compared with the checkpoints: run verify.", "low")
    if trust.differences:
        words = f"The replay differs from the checkpoints in {trust.differences:,} places: do not trust this page."
        return Note(words, "grave")
    if not trust.compared:
        return Note("There was no checkpoint to compare the replay with.", "low")
    return Note(f"The replayed log equals all {trust.compared:,} checkpoints (snapshots) compared.", "good")
