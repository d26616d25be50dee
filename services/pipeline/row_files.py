"""Writes rows to Parquet files, from Python workers: numbers that grow from row to row as differences.

PyArrow would make a dictionary of each column, which costs time and is given up where all values differ. Spark reads
these differences (DELTA_BINARY_PACKED) in its vectorized reader, as other readers of Parquet do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CODEC", "row_file"]

CODEC: Final = "zstd"
_ENCODINGS: Final = {
    **dict.fromkeys(("offset", "timestamp", "batch_base_offset"), "DELTA_BINARY_PACKED"),
    # Those of a partition's states; many partitions change at one time, so that a dictionary suits times better.
    **dict.fromkeys(("valid_from_offset", "valid_to_offset"), "DELTA_BINARY_PACKED"),
    # A hash differs in each row.
    "digest": "PLAIN",
}


def row_file(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Opens a new file for rows with these columns: of the source, of bronze, or of a table that workers compute."""
    encodings = {name: encoding for name, encoding in _ENCODINGS.items() if name in schema.names}
    others = [_leaf(column) for column in schema if column.name not in encodings]
    return pq.ParquetWriter(path, schema, compression=CODEC, use_dictionary=others, column_encoding=encodings)


def _leaf(column: pa.Field) -> str:
    """Returns what Parquet calls the values of a column, which has values or lists of them."""
    assert not pa.types.is_nested(column.type) or pa.types.is_list(column.type), column
    return f"{column.name}.list.element" if pa.types.is_list(column.type) else str(column.name)
