"""A KRaft quorum of Kafka's own controllers, as a process of ours has it.

log     the metadata log, for a `Replica`
"""
