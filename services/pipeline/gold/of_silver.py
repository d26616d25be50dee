"""Notes of which silver gold was made, cluster by cluster, so that two states of a log are not shown as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from services.pipeline.silver.progress import PROGRESS
from services.pipeline.tables import Tables

__all__ = ["OF_SILVER", "OfSilver", "noted", "of_silver"]

OF_SILVER: Final = "gold/of_silver"


class OfSilver(NamedTuple):
    """The clusters whose gold was made of the present silver, and those that have other gold or none."""

    clusters: Sequence[str]
    others: Sequence[str]


@contextmanager
def noted(tables: Tables) -> Iterator[None]:
    """Notes, for the gold that the block writes, of which silver it is made: silver's progress marks at the beginning.

    They are written at the end of the block. During it, and after an error in it, there are none.
    """
    marks = tables.read(PROGRESS)
    assert marks is not None, "silver is there"
    now = marks.localCheckpoint()
    tables.keep(OF_SILVER, now.limit(0))
    yield
    tables.keep(OF_SILVER, now)


def of_silver(tables: Tables) -> OfSilver:
    """Compares gold's notes with silver's marks. Raises LookupError if no cluster has gold of the present silver."""
    silver, gold = (_marks(tables, name) for name in (PROGRESS, OF_SILVER))
    same = sorted(name for name, mark in silver.items() if gold.get(name) == mark)
    if not same:
        raise LookupError("there is no gold of the present silver to report on: run silver and gold before")
    return OfSilver(same, sorted(silver.keys() - same))


def _marks(tables: Tables, name: str) -> dict[str, object]:
    found = tables.read(name)
    return {} if found is None else {row["cluster_id"]: row.asDict() for row in found.collect()}
