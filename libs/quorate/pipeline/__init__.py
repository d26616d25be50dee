"""A metadata log as columns, without Spark: which files there are, and what each record is in JSON.

places       the files below a path, whose cluster they are, and how they are cut into parts
columns      rows by column
rows         the records of a part as columns, damage included
tail         how far a directory's log has been given out, and how far it can be: files that grow
planning     which bytes lie between two such points
live         what a quorum has committed, over gRPC
json_text    a record as the JSON text that Kafka's own converters print; and back
payload_text the same straight from a record's bytes, where nothing stands between them
"""
