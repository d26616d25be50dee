"""The placer service: assigns replicas to new partitions. It is stateless, so any number of copies can run."""
