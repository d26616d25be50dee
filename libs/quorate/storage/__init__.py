"""The only code that opens files: Kafka's directory, byte by byte.

names            what each file is called
segment          the batches of one file
sparse_index     offset → position and time → offset, for Kafka's tools
disk_log         the log over segments: append, flush, read, truncate
recovery         the scan at start; a torn tail and rot are told apart
salvage          damage is put aside where others have what was lost
durable_mark     how far the log was known to be on disk
epochs_file      leader-epoch-checkpoint
snapshots        checkpoints, written aside and renamed whole (KIP-630)
bootstrap        the records with which a new cluster begins
election_file    quorum-state
meta_properties  whose directory it is
lock             one process at a time
files            writing so that it stays written
failpoints       where a test may stop the world
"""
