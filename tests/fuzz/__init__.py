"""Malformed and hostile input at every RPC of every service, against live processes (`make fuzz`)."""
