"""Reads and writes the pipeline's tables; jobs use one interface for plain Parquet and Delta Lake.

verbs        the interface: read, append, keep, replace, compact
formats      the known formats, the Spark settings that each needs, and checks that a directory has the right one
parquet      plain Parquet; `compaction` merges its small files, `rounds` makes readers see each row once meanwhile
delta        Delta Lake
computed     rows that Python workers compute; where tables adopt files, the workers write them
inbox        files that were written elsewhere, and that tables of plain Parquet adopt
files        writes, renames and deletes single files on Hadoop's file systems
reporting    a wrapper that reports each table as soon as it is written
remembered   a wrapper that caches tables of few rows in memory
"""

from services.pipeline.tables.computed import Compute, Computed, Rows, frame_of
from services.pipeline.tables.delta import DeltaTables
from services.pipeline.tables.formats import FORMATS, PARQUET, open_tables, settings_of, tables_of
from services.pipeline.tables.parquet import ParquetTables
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
    "FORMATS",
    "PARQUET",
    "Adopting",
    "Compacted",
    "Compute",
    "Computed",
    "DeltaTables",
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
    "open_tables",
    "settings_of",
    "tables_of",
]
