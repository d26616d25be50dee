"""Storage of one node in Kafka's file formats: log segments, checkpoints, quorum-state, meta.properties.

names            the names of all files
segment          one log segment: a file of batches
sparse_index     sparse offset index and time index of a segment, for Kafka's tools
disk_log         the log over its segments: append, flush, read, truncate
opening          what a start opens, checked, and cut where it is torn
recovery         recovery scan at start: distinguishes a torn tail from damage
salvage          log salvage: puts damaged bytes aside that other nodes still have
durable_mark     the offset up to which the log is known to be flushed
last_known       the last flushed end, epoch and vote, outside of the partition directory; whose directory that is
epochs_file      leader-epoch-checkpoint
snapshots        checkpoints, written to a temporary file and renamed (KIP-630)
bootstrap        the bootstrap records of a new cluster
election_file    quorum-state
meta_properties  meta.properties: cluster, node and directory id
lock             a lock file: one process at a time
files            durable writes: fsync, rename, fsync of the directory
failpoints       places at which a test can crash the process
"""
