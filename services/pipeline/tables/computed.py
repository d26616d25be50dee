"""Rows of a table that Python workers compute with Arrow: as a DataFrame, or as files that the workers write.

Where a table adopts files, no computed row passes through the JVM, whose row-wise Parquet writer takes more CPU than
most computations.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from services.pipeline.row_files import CODEC, row_file

__all__ = ["Compute", "Computed", "Rows", "frame_of", "staged"]

Compute = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.Table]]
"""Computes tables from the batches of one partition of a DataFrame."""
_CLUSTER: Final = "cluster_id"
_RESULT: Final = "cluster_id string, file string"


class Computed(NamedTuple):
    """The rows that `compute` will make of `rows`, with the columns of `schema`; `cluster_id` is among them.

    Nothing is computed before `frame` is used, or the rows are written.
    """

    rows: DataFrame
    compute: Compute
    schema: pa.Schema

    def frame(self) -> DataFrame:
        """Returns the computed rows as a DataFrame."""
        compute, schema = self.compute, self.schema

        def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for table in compute(given):
                assert table.schema.equals(schema), (table.schema, schema)
                yield from table.to_batches()

        return self.rows.mapInArrow(batches, from_arrow_schema(schema))


Rows: TypeAlias = DataFrame | Computed | list[Computed]
"""The rows that a table gets; of several computations, which have one schema, all."""


def frame_of(rows: Rows) -> DataFrame:
    """Returns rows as a DataFrame."""
    if isinstance(rows, Computed):
        return rows.frame()
    return reduce(DataFrame.unionByName, (each.frame() for each in rows)) if isinstance(rows, list) else rows


def staged(rows: Sequence[Computed], to: Path) -> Mapping[str, list[str]]:
    """Has the workers write the rows below `to`, a directory that they and the driver reach by this path.

    Returns the names of the files of each cluster, of which each has the rows of one computed table, in their order.
    """
    found: dict[str, list[str]] = {}
    for each in rows:
        assert each.schema.equals(rows[0].schema), (each.schema, rows[0].schema)  # they become one table
        for cluster_id, name in each.rows.mapInArrow(_writing(each.compute, each.schema, to), _RESULT).collect():
            found.setdefault(cluster_id, []).append(name)
    return found


def _writing(
    compute: Compute, schema: pa.Schema, to: Path
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns what writes the computed tables, and yields the cluster and the name of each file."""

    def written(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in compute(given):
            assert table.schema.equals(schema), (table.schema, schema)
            for cluster_id, own in _by_cluster(table):
                # A task may run twice: each attempt has a name of its own, and only what the job returns is adopted.
                name = f"part-{uuid.uuid4()}.{CODEC}.parquet"
                with row_file(to / name, own.schema) as file:
                    file.write_table(own)
                yield pa.RecordBatch.from_pydict({"cluster_id": [cluster_id], "file": [name]})

    return written


def _by_cluster(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the rows of each cluster, in their order and without the cluster's column."""
    clusters = table[_CLUSTER].unique().to_pylist()
    rest = table.drop_columns(_CLUSTER)
    for cluster_id in clusters:
        yield cluster_id, rest if len(clusters) == 1 else rest.filter(pc.equal(table[_CLUSTER], cluster_id))
