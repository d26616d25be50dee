"""The runtime that every service shares: event loop, gRPC server and client, configuration, logs, metrics, traces.

process     what the processes of all services have, from start to stop
access      who may call
following   following the log of a quorum
clients     a client of a service with a leader
calls       a gRPC server
requests    what comes in, before a handler has it
telemetry   traces and metrics
connections connections between processes
event_loop  one event loop in a process
logging     structured logs
settings    a service's configuration

Each knows only those below it. In libs only this package imports OpenTelemetry, and only it and `pipeline` import gRPC
and tenacity.
"""

import os
import sys
from typing import Final

_CIPHERS: Final = "GRPC_SSL_CIPHER_SUITES"
_NONE: Final = "ECDHE-PSK-AES128-CBC-SHA"
IS_TLS_1_3_ALONE: Final = "grpc" not in sys.modules or os.environ.get(_CIPHERS) == _NONE
"""Whether gRPC's core will read what is set here: it does so once, when it is imported."""

# By default gRPC's core writes its own messages between our log lines.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# Else its handlers run in each child that uvloop forks, as an observer's of a question in SQL, before that begins its
# program: beside calls under way 9 of 150 children died of them, by SIGSEGV or SIGABRT.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# It has no setting in Python for the oldest version of TLS. These are the ciphers of TLS 1.2 that it offers and takes,
# and this one needs a key that both sides know already (RFC 5489), which they never do: TLS 1.3, with its own, is left.
os.environ[_CIPHERS] = _NONE
