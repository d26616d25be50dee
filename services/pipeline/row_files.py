"""Writes records to Parquet files, from Python workers: numbers that grow from row to row as differences.

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
    "offset": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
    "batch_base_offset": "DELTA_BINARY_PACKED",
    # A hash differs in each row.
    "digest": "PLAIN",
}


def row_file(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Opens a new file for records with these columns of the source, or of bronze."""
    encodings = {name: encoding for name, encoding in _ENCODINGS.items() if name in schema.names}
    others = [name for name in schema.names if name not in encodings]
    return pq.ParquetWriter(path, schema, compression=CODEC, use_dictionary=others, column_encoding=encodings)
