"""Bronze, the raw layer: every record and every span that was read, once and unchanged, and what could not be read.

records      appends the records of logs and checkpoints, each once; which of several replicas' records are the log
committed    what is known to be committed, and so which records are those of deposed leaders
files        the same for files: the workers write what they decode (`staged`, `digest`)
extents      finds which files cannot hold the same record, without a shuffle
stream       appends records as files grow, or from a running quorum
spans        appends trace spans, each once
span_files   finds files and databases that hold spans; `span_store` and `span_database` read the observer's trace
             store, `line_files` and `otlp_lines` an OpenTelemetry collector's files
quarantine   keeps damaged and unreadable input, and which of these claims were withdrawn
claims       withdraws claims about input that could be read since
"""

from services.pipeline.bronze.committed import KNOWN, Known, known, known_in
from services.pipeline.bronze.files import ingest_files
from services.pipeline.bronze.quarantine import QUARANTINE, WITHDRAWN, standing
from services.pipeline.bronze.records import (
    RECORDS,
    SNAPSHOTS,
    RowCounts,
    conflicts,
    divided,
    doubles,
    ingest,
    settled,
    whole_snapshots,
)

__all__ = [
    "KNOWN",
    "QUARANTINE",
    "RECORDS",
    "SNAPSHOTS",
    "WITHDRAWN",
    "Known",
    "RowCounts",
    "conflicts",
    "divided",
    "doubles",
    "ingest",
    "ingest_files",
    "known",
    "known_in",
    "settled",
    "standing",
    "whole_snapshots",
]
