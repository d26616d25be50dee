"""The runtime that every service shares: event loop, gRPC server and client, configuration, logs, metrics, traces.

In libs only this package imports asyncio, gRPC, OpenTelemetry and tenacity.
"""

import os

# By default gRPC's core writes its own messages between our log lines. It reads this variable when first imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
