"""Bronze: what was read, each record and each span once, as it lay there, and what could not be read.

records      every record of every file; what of it is the log
extents      which files cannot hold the same record
stream       the same as files grow, or from a running quorum
spans        every span once
span_files   which files hold spans, or which database; `span_store` and `span_database` read the observer's,
             `line_files` and `otlp_lines` a collector's
claims       what is said in quarantine and is not so any more
"""

from services.pipeline.bronze.records import (
    QUARANTINE,
    RECORDS,
    SNAPSHOTS,
    Counts,
    conflicts,
    ingest,
    settled,
    whole_snapshots,
)

__all__ = ["QUARANTINE", "RECORDS", "SNAPSHOTS", "Counts", "conflicts", "ingest", "settled", "whole_snapshots"]
