"""The gateway service: Kafka's own wire on a controller listener, passed on to the gRPC services beside it."""
