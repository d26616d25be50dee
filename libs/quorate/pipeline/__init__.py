"""Decodes metadata logs and checkpoints into columns, without Spark; records become Kafka's JSON.

files         files on this machine or in a store
stores        the stores that a URL names: object stores, and HDFS
log_files     finds segments and checkpoints below a path, their cluster, and cuts them into parts
columns       decoded records: the decoding loop notes them as rows, and they are read by column
rows          walks through the batches of a part, and decodes them into columns; damaged bytes become rows too
row_filter    which rows are wanted
batch_rows    decodes batches record by record, with Python only
column_rows   decodes many batches by column, with numpy and Arrow, to the same rows
record_spans  where the records of many batches are
column_text   the payloads of many records of one type and version
record_shapes the decoder of each record type and version
tail          cursors into a directory whose log grows, rolls, is truncated or cleaned
planning      computes the file parts that lie between two cursors
commitment    which records are committed, as far as files tell
replicas      reads from files which replica has which epochs of the log
twins         detects two clusters under one cluster id
live          reads a running quorum's committed records and snapshots
nodes         what is asked of a quorum's nodes, whichever protocol they speak
grpc_nodes    Quorate's nodes, over gRPC; `grpc_security`: by TLS, or in the clear
kafka_nodes   Kafka's controllers, over Kafka's own wire
json_text     writes a record as the JSON text of Kafka's own converters, and parses it
"""
