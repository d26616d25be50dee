"""Kafka's metadata control plane, listed from the bottom layer up.

nouns, errors        basic types and exceptions of every part
random_uuid          new random ids, as Kafka makes them
properties, doubles  Java's properties files, and its text of floating-point numbers
traces               trace spans, and the tree of a trace
tls                  certificates: files, subjects, principals
wire                 Kafka's wire format
records              the record classes by their plain names
timeline, epochs     collections with undo; the end offset of each leader epoch
raft                 COMMIT: the quorum protocol, without I/O
replication          REPLICATE: the partitions of a broker, without I/O
metadata             APPLY: the replicated state
placement, liveness  pure decisions of the stateless services
authorizer           ACL decisions
controller           WRITE: the effect of an admin request on the state
storage, runtime     a node's files; event loop, gRPC, OpenTelemetry
protocol, network    connections as Kafka's clients and servers have them: without I/O; over asyncio
partition_log        the log of a data partition on a broker
kafka_quorum         a quorum of Kafka's own controllers: its metadata log, and where its leader is
listeners            the listeners of Kafka's wire of a process: settings, TLS, logins, bounds
sql                  the state as SQL tables, and read-only queries on them
pipeline             decodes logs and checkpoints into columns, without Spark
doctor               what an operator should look at, by rules that are rows
what_if              brokers or directories away, restarts, reassignments, levels, by the controller's own decisions
cli                  the `quorate` command
"""

if not __debug__:
    raise RuntimeError("quorate does not run under python -O: its assertions are part of the protocol")
