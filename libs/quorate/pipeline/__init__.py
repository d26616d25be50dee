"""Decodes metadata logs and checkpoints into columns, without Spark; records become Kafka's JSON.

files        files on this machine or in an object store
log_files    finds segments and checkpoints below a path, their cluster, and cuts them into parts
columns      the columns that the decoding loop fills
rows         decodes the records of a part into columns; damaged bytes become rows too
tail         cursors into a directory whose log grows, rolls, is truncated or cleaned
planning     computes the file parts that lie between two cursors
twins        detects two clusters under one cluster id
live         reads a running quorum's committed records and snapshots
nodes        what is asked of a quorum's nodes, whichever protocol they speak
grpc_nodes   Quorate's nodes, over gRPC
kafka_nodes  Kafka's controllers, over Kafka's own wire
json_text    writes a record as the JSON text of Kafka's own converters, and parses it
payload_text writes the same JSON text straight from a record's bytes, without an object
"""
