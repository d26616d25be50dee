"""The report's statement on its own correctness: whether the replayed log equals the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.bronze import SNAPSHOTS
from services.pipeline.report.limits import TEXT_MAX
from services.pipeline.report.parts import Note
from services.pipeline.tables import Tables
from services.pipeline.verify import COMPARED, VERIFY

__all__ = ["Trust", "read_trust", "trust_lines"]

NAMED_MAX: Final = 10
"""Most clusters that the page names as left out; the job's output names all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How many checkpoints were compared and how many rows differ; both None if `verify` was not run.

    `left_out` are the clusters that the page does not tell of.
    """

    compared: int | None
    differences: int | None
    left_out: Sequence[str] = ()


def read_trust(tables: Tables, left_out: Sequence[str] = ()) -> Trust:
    """Reads the results of the last `verify`. Where there is no checkpoint yet, none was compared."""
    found, differences = tables.read(f"{VERIFY}/checkpoints"), tables.read(f"{VERIFY}/differences")
    if found is None:
        none_yet = tables.read(SNAPSHOTS) is None
        return Trust(compared=0 if none_yet else None, differences=0 if none_yet else None, left_out=left_out)
    compared = found.where(found["verdict"] == COMPARED).count()
    # A table without rows may have no file, so it cannot be read.
    count = 0 if differences is None else differences.count()
    return Trust(compared=compared, differences=count, left_out=left_out)


def trust_lines(trust: Trust) -> Sequence[Note]:
    """Writes the result of `verify` as a sentence, and which clusters are left out."""
    return [_compared(trust), *_left_out(trust.left_out)]


def _compared(trust: Trust) -> Note:
    if trust.compared is None:
        return Note("The replay has not been compared with the checkpoints: run verify.", "low")
    if trust.differences:
        words = f"The replay differs from the checkpoints in {trust.differences:,} places: do not trust this page."
        return Note(words, "grave")
    if not trust.compared:
        return Note("There was no checkpoint to compare the replay with.", "low")
    return Note(f"The replayed log equals all {trust.compared:,} checkpoints (snapshots) compared.", "good")


def _left_out(clusters: Sequence[str]) -> Iterator[Note]:
    if clusters:
        named = ", ".join(each[:TEXT_MAX] for each in clusters[:NAMED_MAX])
        more = f" and {len(clusters) - NAMED_MAX:,} more" if len(clusters) > NAMED_MAX else ""
        yield Note(f"Left out, as their gold is not of the present silver: {named}{more}.", "grave")
