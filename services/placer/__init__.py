"""The placer service: assigns replicas to new partitions. It is stateless, so any number of copies can run.

servicer   the gRPC servicer; the placement itself is `quorate.placement`
config     the settings
metrics    the metrics
"""
