"""Kafka's metadata control plane, listed from the bottom layer up.

nouns, errors        basic types and exceptions of every part
records              the record classes by their plain names
wire, log            Kafka's wire format; the log interface of a core
timeline, epochs     collections with undo; the end offset of each leader epoch
raft                 COMMIT: the quorum protocol, without I/O
metadata             APPLY: the replicated state
placement, liveness  pure decisions of the stateless services
controller           WRITE: the effect of an admin request on the state
storage, runtime     the only code that opens files; the only code that uses asyncio, gRPC, OpenTelemetry
protocol, network    connections as Kafka's clients and servers have them: without I/O; over asyncio
cli                  the `quorate` command
"""

if not __debug__:
    raise RuntimeError("quorate does not run under python -O: its assertions are part of the protocol")
