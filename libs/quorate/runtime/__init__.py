"""The only code in libs that knows asyncio, gRPC, OpenTelemetry and tenacity: what every service is run with."""

import os

# Unless told, gRPC's core writes its own notices between our log lines. It reads this when it is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
