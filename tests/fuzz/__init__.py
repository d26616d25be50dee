"""Malformed and hostile input at every RPC of every service, against live processes (`make fuzz`)."""

import quorate.runtime  # noqa: F401  # first of all: gRPC reads what it sets once, when it is imported
