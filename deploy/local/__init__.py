"""The whole control plane as processes on loopback: what `make run` starts, and the tests beside it.

plan        which processes, on which ports, with which settings
processes   started, awaited, ended
broker      a stand-in for a broker: registers, follows the log, heartbeats
client      the calls that the demonstration makes
show        what is printed
"""
