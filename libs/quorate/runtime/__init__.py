"""The runtime that every service shares: event loop, gRPC server and client, configuration, logs, metrics, traces.

loop, clock                              the process from start to exit code; its clocks
config, setting_types, call_settings     configuration
server, door, admission, caps, decoding  a gRPC server, the wrapper of its handlers, limits, requests
statuses, health, symbols                errors as statuses, health checks, reflection
client, reaching                         a client that finds the leader; advertised listeners
passing_on                               whose request it is that one program passes on to another
log_reader, replica, turns               an observer of the log, and the state that it builds, decoded in turns
logs, telemetry, export                  logs and traces
metrics, metric_rows, cluster_metrics    metrics
holds                                    how long single callbacks block the event loop

In libs only this package imports OpenTelemetry, and only it and `pipeline.live` import gRPC and tenacity.
"""

import os

# By default gRPC's core writes its own messages between our log lines. It reads this variable when first imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
