"""Kafka's metadata control plane, from the bottom up.

nouns, errors        what every part speaks of
records              the record classes by their plain names
wire, log            Kafka's bytes; what a core may ask of a log
timeline, epochs     state that can go back; where each leader epoch ends
raft                 COMMIT: the quorum protocol, without I/O
metadata             APPLY: the replicated state
placement, liveness  pure decisions of the stateless services
controller           WRITE: what an admin request does to the state
storage, runtime     the only code that opens files; the only code that knows asyncio, gRPC, OpenTelemetry
cli                  the `quorate` command
"""

if not __debug__:
    raise RuntimeError("quorate does not run under python -O: its assertions are part of the protocol")
