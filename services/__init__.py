"""The programs: one folder a service, started by `python -m services.<name>`."""

from quorate import runtime as runtime  # before gRPC, whose core reads what it sets
