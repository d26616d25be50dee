"""A real Kubernetes on this machine, and the chart on it: `make kube`, or `python -m tests.kube up|down|run`."""

from quorate import runtime as runtime  # before gRPC, whose core reads what it sets
