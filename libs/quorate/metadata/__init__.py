"""APPLY: the replicated state of a Kafka cluster, shared by controller, observer and broker."""
