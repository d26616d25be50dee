"""The Spark data source `kraft`: records of metadata logs and checkpoints as rows, from files or a running quorum.

kraft       the DataSource that Spark calls, and the batch reader of files
options     parses and checks the reader's options
bounds      from where to where each cluster is read
columns     the schema, and the conversion of decoded records to Arrow batches
commit_column  whether each record is committed
conditions  filter pushdown: turns a query's conditions into limits for files and records
loss        offsets that are needed and were removed
triggers    when a micro-batch of a stream starts
read_limits Spark's limits for a micro-batch
stream      the stream reader of files that grow
live        the live log of a running quorum, and its batch reader
live_stream its stream reader
nodes       the nodes of a running quorum that the options name
"""

from services.pipeline.source.columns import NAME
from services.pipeline.source.kraft import register

__all__ = ["NAME", "register"]
