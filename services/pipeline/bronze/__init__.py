"""Bronze: what was read, each record and each span once, as it lay there, and what could not be read.

records      every record of every file; what of it is the log
extents      which files cannot hold the same record
stream       the same as files grow, or from a running quorum
spans        every span once
span_files   which files hold spans, or which database; `span_store` and `span_database` read the observer's,
             `line_files` and `otlp_lines` a collector's
quarantine   what could not be read, but for what was withdrawn of it
claims       what was claimed there and is not so any more
"""

from services.pipeline.bronze.quarantine import QUARANTINE, WITHDRAWN, standing
from services.pipeline.bronze.records import (
    RECORDS,
    SNAPSHOTS,
    Counts,
    conflicts,
    ingest,
    settled,
    whole_snapshots,
)

__all__ = [
    "QUARANTINE",
    "RECORDS",
    "SNAPSHOTS",
    "WITHDRAWN",
    "Counts",
    "conflicts",
    "ingest",
    "settled",
    "standing",
    "whole_snapshots",
]
