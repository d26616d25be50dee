"""The heartbeat service: receives broker heartbeats (KIP-631), and has the controller fence and unfence brokers.

driver          handles heartbeats, and has the controller change broker states
listening       how long brokers have been silent, and what counts as silence
standing        whether this process counts, another one does, or no controller says which
servicer        the gRPC servicer
reading_ahead   reads a stream ahead of its answers
config          the settings
metrics         the metrics, by Kafka's names
"""
