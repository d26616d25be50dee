"""The runtime that every service shares: event loop, gRPC server and client, configuration, logs, metrics, traces.

process, loop                            a service's process: what it consists of; from its start to its exit code
daemon_threads, memory, clock, limit     its threads, its memory, its clocks, time limits
file_limit      as many open files as the system allows
config, setting_types, call_settings, stop_settings     configuration
server, wrapped_server, door, call_endings, call_bounds, peers, guard, entry_guard, process_rights, audit, claims,
  admission, late_refusals               a gRPC server, the wrapper of its handlers, who may call, limits
receiving, room, stream_room, decoding,
  decoded_cost, caps                               requests
statuses, health, symbols                errors as statuses, health checks, reflection
refusals                                 answers of Kafka's APIs that refuse a whole request
client, patience, reaching, named_endpoints
                                         a client that finds the leader; advertised listeners; nodes' named listeners
stream_requests, multiplexed_calls, multiplexed_channel
                                         many requests in one stream: of one API, and any unary calls
transport, transport_settings, reloading_channel
                                         TLS of servers and clients, with certificates that change
call_login, passing_on                   who has logged in with a call; whose request one program passes on to another
log_reader, log_servers, log_requests, leader_reports, unanswered
                                         an observer of the log: its servers, its requests, its reports to the leader
replica, replica_readiness, turns        the state that it builds, decoded in turns; whether calls should be sent to it
logs, hidden, repeats, telemetry, export, otlp_settings
                                         logs and traces
metrics, metric_rows, cluster_metrics    metrics
holds                                    how long single callbacks block the event loop

In libs only this package imports OpenTelemetry, and only it and `pipeline` import gRPC and tenacity.
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
