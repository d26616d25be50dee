"""Runs the whole control plane as processes on loopback, for `make run` and the end-to-end tests.

plan        the processes with their ports and settings
launching   how a process is started
processes   starts the processes, waits until they are ready, and stops them
broker      stand-ins for brokers: they register, follow the log, send heartbeats
kafka       brokers and tools of a Kafka release in their place
own         brokers of our own in their place, and records through librdkafka
client      the calls of the demonstration
show        the output of the demonstration
"""

from quorate import runtime as runtime  # before gRPC, whose core reads what it sets
