"""Faults of real processes, under writers and brokers' heartbeats: `make shows`.

table                what a show is asked for, what it found, and the table of all
door_brokers         stand-ins of brokers that reach the plane by its gateways
scene                a control plane under load, what strikes it, and what is judged at the end
pauses               a process of each kind stands still
frozen_leader        the leader stands still with its controller and gateway
cut_doors            brokers and clients reach no door, or no answer reaches them
wiped_voters         a voter loses its disk and joins again
hostile_environment  all processes start in an environment that was made for other programs
"""

import os

import quorate.runtime  # noqa: F401  # first of all: gRPC reads what it sets once, when it is imported

# uvloop starts a process by a fork, and gRPC's handlers run in the child: one died of SIGSEGV there, not yet a service.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
