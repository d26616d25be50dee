"""The Spark data source `kraft`: records of metadata logs and checkpoints, one a row, from files or a running quorum.

kraft     what Spark asks for: the columns, and a reader of files, of a quorum, or of either as a stream
options   what `option(…)` may say
columns   a row, and a part's records as Arrow
stream    files that grow
live      a running quorum, as one read or as a stream
"""

from services.pipeline.source.columns import NAME
from services.pipeline.source.kraft import register

__all__ = ["NAME", "register"]
