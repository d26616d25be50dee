"""Where the tables lie, in which format, behind verbs that are the same for all.

verbs        what a job may do to them
formats      which formats there are, what a session needs for each, and which one a directory has
parquet      plain Parquet; `compaction` rewrites its small files, `rounds` is how readers bear that
delta        Delta Lake
files        single files beside the tables
telling      the same verbs, and each table is told of as soon as it is written
"""

from services.pipeline.tables.delta import DeltaTables
from services.pipeline.tables.formats import FORMATS, PARQUET, open_tables, settings_of, tables_of
from services.pipeline.tables.parquet import ParquetTables
from services.pipeline.tables.telling import Telling
from services.pipeline.tables.verbs import Compacted, Growing, Keeping, Lake, Replacing, Tables, add

__all__ = [
    "FORMATS",
    "PARQUET",
    "Compacted",
    "DeltaTables",
    "Growing",
    "Keeping",
    "Lake",
    "ParquetTables",
    "Replacing",
    "Tables",
    "Telling",
    "add",
    "open_tables",
    "settings_of",
    "tables_of",
]
