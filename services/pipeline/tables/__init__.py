"""Reads and writes the pipeline's tables; plain Parquet, behind one interface.

verbs        the interface: read, append, keep, replace, compact
parquet      plain Parquet; `compaction` merges its small files, `rounds` makes readers see each row once meanwhile
computed     rows that Python workers compute; where tables adopt files, the workers write them
inbox        files that were written elsewhere, and that tables of plain Parquet adopt
files        writes, renames and deletes single files on Hadoop's file systems
reporting    a wrapper that reports each table as soon as it is written
remembered   a wrapper that caches tables of few rows in memory
"""

from services.pipeline.tables.computed import Compute, Computed, Rows, frame_of
from services.pipeline.tables.parquet import ParquetTables, opened
from services.pipeline.tables.remembered import Remembered
from services.pipeline.tables.reporting import Reporting
from services.pipeline.tables.verbs import (
    Adopting,
    Compacted,
    Growing,
    Keeping,
    Lake,
    Replacing,
    TableFile,
    Tables,
    add,
)

__all__ = [
    "Adopting",
    "Compacted",
    "Compute",
    "Computed",
    "Growing",
    "Keeping",
    "Lake",
    "ParquetTables",
    "Remembered",
    "Replacing",
    "Reporting",
    "Rows",
    "TableFile",
    "Tables",
    "add",
    "frame_of",
    "opened",
]
