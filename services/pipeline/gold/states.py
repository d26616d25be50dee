"""Brings the states of each partition together in one Python worker, which computes gold's rows of them over arrays.

Silver has the states of a partition in one file. Where the tables are plain Parquet on a disk, a worker reads whole
files itself, and only the columns that it needs: nothing is shuffled, and no list passes through the JVM. Elsewhere
Spark shuffles the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from services.pipeline.groups import Groups, grouped
from services.pipeline.silver.partition_arrays import SCHEMA
from services.pipeline.silver.stated import KEY
from services.pipeline.tables import Compute, Computed, TableFile

__all__ = ["FROM", "OfStates", "States"]

FROM: Final = "valid_from_offset"
OfStates = Callable[[pa.Table, Groups], pa.Table]
"""Computes rows from states that are sorted by partition and offset; the groups are the partitions."""
_CLUSTER: Final = "cluster_id"
_KEY: Final = (_CLUSTER, *KEY)
_FILES: Final = "cluster_id string, path string"
_Reading = Callable[[pa.Table], Iterator[pa.Table]]
TASK_ROWS: Final = 1 << 18
"""About how many states a task holds in memory, where Spark shuffles them."""


class States(NamedTuple):
    """The states of partitions: the table, and its files if the workers may read these."""

    history: DataFrame
    files: Sequence[TableFile] | None = None

    def computed(self, columns: Sequence[str], of: OfStates, schema: pa.Schema) -> Computed:
        """Returns the rows that `of` computes from these columns of the history, and from the columns of the key.

        Without files, the states are counted now, by a Spark job; all else is computed when the rows are needed.
        """
        wanted = list(dict.fromkeys((*_KEY, FROM, *columns)))
        if self.files is None:
            tasks = max(1, -(-self.history.count() // TASK_ROWS))
            rows = self.history.select(*wanted).repartition(tasks, *_KEY)
            read: _Reading = _gathered
        else:
            rows = self.history.sparkSession.createDataFrame([tuple(each) for each in self.files], _FILES)
            read = _reading(pa.schema([SCHEMA.field(name) for name in wanted]))
        return Computed(rows, _computing(read, of), schema)


def _computing(read: _Reading, of: OfStates) -> Compute:
    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        given = [rows for batch in batches if len(rows := pa.Table.from_batches([batch]))]
        if given:
            for states in read(pa.concat_tables(given)):
                yield of(*grouped(states, _KEY, FROM))

    return compute


def _gathered(rows: pa.Table) -> Iterator[pa.Table]:
    """Yields the states that Spark has brought to this task."""
    yield rows


def _reading(schema: pa.Schema) -> _Reading:
    """Returns what yields the states of each of a task's files."""

    def read(files: pa.Table) -> Iterator[pa.Table]:
        for file in files.to_pylist():
            yield _read(schema, file[_CLUSTER], file["path"])

    return read


def _read(schema: pa.Schema, cluster_id: str, path: str) -> pa.Table:
    """Reads the columns of a file; the directory has the cluster's id."""
    names = [name for name in schema.names if name != _CLUSTER]
    found = pq.ParquetFile(path).read(columns=names, use_threads=False)
    whole = found.append_column(_CLUSTER, pa.repeat(pa.scalar(cluster_id), len(found)))
    return whole.select(schema.names).cast(schema)
