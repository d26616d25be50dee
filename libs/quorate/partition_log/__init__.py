"""The log of a data partition on disk, in Kafka's files: what a broker stores (R5 to R8 of `quorate.replication`).

log                 append, read, truncate, delete, flush: a `quorate.replication.log.Log`
appended            what becomes of a producer's batch
flushing            segments that are full, and may not be on the disk yet
effects             what the core decides, done to a log
produced            what a leader checks of a producer's batch, and what it writes into it
produced_records    reads and counts the records of such a batch
stored_records      finds a record by its time in a batch of the log
producers           sequences and transactions of producers (KIP-98)
markers             the control record that ends a transaction
verifications       transactions whose coordinator is being asked about them (KIP-890)
producer_files      producer snapshots, and which transactions were aborted
aborted             the file `.txnindex`
segment             one segment: a file of batches
open_files          which segments have their files open
lookup              where an offset or a time lies among the segments
segment_index       `.index` and `.timeindex`
recovery            what a start trusts, scans and cuts off
retention           which segments are old
offset_checkpoints  a log directory's recovery points, high watermarks, log starts
clean_shutdown      a log directory's mark of a clean stop
settings            a topic's settings that its log follows
names               the names of the files
"""

from quorate.partition_log.appended import Appended
from quorate.partition_log.effects import carry_out
from quorate.partition_log.flushing import Unflushed
from quorate.partition_log.log import PartitionLog
from quorate.partition_log.markers import Marker, TransactionEnd
from quorate.partition_log.open_files import OpenFiles
from quorate.partition_log.produced import Limits, TimestampType
from quorate.partition_log.settings import LogSettings
from quorate.partition_log.verifications import Verification

__all__ = [
    "Appended",
    "Limits",
    "LogSettings",
    "Marker",
    "OpenFiles",
    "PartitionLog",
    "TimestampType",
    "TransactionEnd",
    "Unflushed",
    "Verification",
    "carry_out",
]
