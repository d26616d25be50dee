"""The schema of the source `kraft`, and the conversion of decoded columns to Arrow record batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from quorate.pipeline.column_rows import Arrays
from quorate.pipeline.columns import COLUMNS
from quorate.pipeline.commitment import Commitment
from quorate.pipeline.log_files import CHECKPOINT_KIND, FilePart
from quorate.pipeline.rows import Columns, RowFilter
from services.pipeline.source.commit_column import COMMIT, commit_column

__all__ = ["NAME", "Bundle", "arrow_batch", "arrow_schema", "check_columns", "schema_of", "spared"]

NAME: Final = "kraft"
_TYPES: Final = {
    "cluster_id": pa.string(),
    "source": pa.string(),
    "kind": pa.string(),
    "snapshot_offset": pa.int64(),
    "snapshot_epoch": pa.int32(),
    "fingerprint": pa.string(),
    "offset": pa.int64(),
    "epoch": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "batch_base_offset": pa.int64(),
    "is_control": pa.bool_(),
    "api_key": pa.int32(),
    "type": pa.string(),
    "version": pa.int32(),
    "payload": pa.string(),
    "trace_id": pa.string(),
    "raw": pa.binary(),
    COMMIT: pa.string(),
    "_corrupt": pa.string(),
}


_SPARK: Final = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
}
_DECODED: Final = frozenset({"payload", "trace_id", "raw", "_corrupt"})
"""The columns for which a record has to be decoded; the others are in its batch and in its head."""
assert _TYPES.keys() >= _DECODED.union(COLUMNS), (_DECODED, COLUMNS)


class Bundle(InputPartition):
    """A Spark input partition: the file parts that one task reads, and what is known to be committed, by cluster id.

    `committed` has each cluster of the parts; nothing is known of one whose files were not compared.
    """

    def __init__(self, parts: tuple[FilePart, ...], committed: Mapping[str, Commitment]) -> None:
        super().__init__(None)
        self.parts = parts
        clusters = {part.place.cluster_id for part in parts}
        self.committed = {cluster: committed.get(cluster, Commitment()) for cluster in clusters}


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Returns the requested column names of the source `kraft` as a tuple. Raises ValueError for an unknown one."""
    strange = sorted(set(columns) - set(_TYPES))
    if strange:
        raise ValueError(f"the source {NAME} has no column {', '.join(strange)}: it has {', '.join(_TYPES)}")
    return tuple(columns)


def schema_of(columns: Sequence[str]) -> str:
    """Returns the schema in Spark's DDL with these columns; without any, with all. Raises ValueError."""
    return ", ".join(f"`{name}` {_SPARK[_TYPES[name]]}" for name in check_columns(columns) or _TYPES)


def arrow_schema(columns: Sequence[str] = tuple(_TYPES)) -> pa.Schema:
    """Returns the Arrow schema with these columns."""
    return pa.schema([(name, _TYPES[name]) for name in columns])


def spared(wanted: RowFilter, columns: Sequence[str]) -> RowFilter:
    """Returns `wanted` without decoding if no requested column needs it: a count writes no JSON."""
    return wanted._replace(decoded=not _DECODED.isdisjoint(columns))


def arrow_batch(
    part: FilePart, columns: Columns | Arrays, wanted: Sequence[str], committed: Commitment | None
) -> pa.RecordBatch:
    """Converts rows of a part to an Arrow batch with the `wanted` columns, in that order.

    `committed` is what is known to be committed in the part's log; None if everything is, as a quorum's answers are.
    """
    place, count = part.place, len(columns)
    is_checkpoint = place.kind == CHECKPOINT_KIND
    fixed = {
        "cluster_id": place.cluster_id,
        "source": place.path,
        "kind": place.kind,
        "snapshot_offset": place.base_offset if is_checkpoint else None,
        "snapshot_epoch": place.epoch if is_checkpoint else None,
        "fingerprint": part.fingerprint,
    }
    found = columns.by_name if isinstance(columns, Arrays) else columns.by_name()
    arrays = []
    for name in wanted:
        if name in fixed:
            arrays.append(pa.repeat(pa.scalar(fixed[name], _TYPES[name]), count))
        elif name == COMMIT:
            known = None if is_checkpoint else committed
            arrays.append(commit_column(found["offset"], found["epoch"], found["_corrupt"], known))
        elif name == "timestamp":
            arrays.append(pa.array(found[name], pa.timestamp("ms", tz="UTC")).cast(_TYPES[name]))
        else:
            arrays.append(pa.array(found[name], _TYPES[name]))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(wanted))
