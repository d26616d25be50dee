"""Lets a job go on without the clusters that it fails for: each of them costs its own rows only.

A job computes all clusters at once. If it fails, halves of the clusters are tried alone, and nothing is written, until
those are found that it fails for; then it is run for the others. A job that does not fail pays nothing for this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.problems import OF_ROWS
from services.pipeline.tables import Rows, TableFile, Tables, frame_of

__all__ = ["FAILING_MAX", "Failing", "Only", "apart"]

FAILING_MAX: Final = 16
"""From so many failing clusters on the job fails: the reason is hardly theirs, and each costs some runs to find."""
_CLUSTER: Final = "cluster_id"
T = TypeVar("T")


class Failing(NamedTuple):
    """A cluster that a job fails for, and by which error."""

    cluster_id: str
    problem: Exception


def apart(
    tables: Tables, clusters_of: str, job: Callable[[Tables], T], *, again: Callable[[], object] = lambda: None
) -> tuple[T, Sequence[Failing]]:
    """Runs `job` over the tables; if rows make it fail, over those of the clusters that it does not fail for.

    Returns its result and the clusters that are left out. The clusters are those of the table `clusters_of`. While the
    failing ones are looked for, nothing is written. `again` is called before the last run, which writes. Raises the
    job's own error if no cluster fails alone, if each does, or if FAILING_MAX do.
    """
    try:
        return job(tables), ()
    except OF_ROWS:
        named = tables.read(clusters_of)
        clusters = [] if named is None else sorted(row[0] for row in named.select(_CLUSTER).distinct().collect())
        failing = _found(clusters, lambda some: job(_Tried(Only(tables, some))))
        if not failing or len(failing) in (len(clusters), FAILING_MAX):
            raise
    again()
    bad = {each.cluster_id for each in failing}
    assert len(bad) == len(failing), failing  # halves have no cluster in common
    return job(Only(tables, [each for each in clusters if each not in bad])), failing


def _found(clusters: Sequence[str], attempt: Callable[[Sequence[str]], object]) -> list[Failing]:
    """Returns the clusters that `attempt` fails for alone, at most FAILING_MAX; those of `clusters` together failed."""
    found: list[Failing] = []
    halves = _halved(clusters) if len(clusters) > 1 else [clusters]
    while halves and len(found) < FAILING_MAX:
        some = halves.pop()
        try:
            attempt(some)
        except OF_ROWS as problem:
            if len(some) == 1:
                found.append(Failing(some[0], problem))
            else:
                halves += _halved(some)
    return found


def _halved(clusters: Sequence[str]) -> list[Sequence[str]]:
    middle = len(clusters) // 2
    return [clusters[middle:], clusters[:middle]]


class Only:
    """Tables of which only the rows of some clusters are read, so that a job computes only theirs.

    Writes are those of the whole table: `keep` leaves no row of the other clusters.
    """

    def __init__(self, tables: Tables, clusters: Sequence[str]) -> None:
        self._tables = tables
        self._clusters = list(clusters)

    def read(self, name: str) -> DataFrame | None:
        """Returns these clusters' rows of a table; None if it was never written."""
        found = self._tables.read(name)
        return None if found is None else found.where(fn.col(_CLUSTER).isin(self._clusters))

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows."""
        self._tables.append(name, rows, partition_by=partition_by)

    def keep(self, name: str, rows: Rows) -> DataFrame:
        """Overwrites the whole table with these rows, and returns it."""
        return self._tables.keep(name, rows)

    def replace(self, name: str, rows: Rows) -> DataFrame:
        """Replaces all rows of the clusters that occur in `rows`, and returns the whole table."""
        return self._tables.replace(name, rows)

    def files(self, name: str) -> Sequence[TableFile] | None:
        """Returns the files that have these clusters' rows; None if workers cannot read them as they are."""
        found = self._tables.files(name)
        return None if found is None else [each for each in found if each.cluster_id in self._clusters]


class _Tried:
    """Tables to which nothing is written: rows are computed, and read again by this object alone."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._made: dict[str, DataFrame] = {}

    def read(self, name: str) -> DataFrame | None:
        return self._made[name] if name in self._made else self._tables.read(name)

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        rows.localCheckpoint()

    def keep(self, name: str, rows: Rows) -> DataFrame:
        self._made[name] = frame_of(rows).localCheckpoint()
        return self._made[name]

    def replace(self, name: str, rows: Rows) -> DataFrame:
        return self.keep(name, rows)

    def files(self, name: str) -> Sequence[TableFile] | None:
        return None if name in self._made else self._tables.files(name)
