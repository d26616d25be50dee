"""The nodes that the source's options name: Quorate's over gRPC, or Kafka's controllers over Kafka's own wire."""

from __future__ import annotations

from quorate.network.client_config import parse_bootstrap, parse_client_config
from quorate.pipeline.kafka_nodes import KafkaNodes
from quorate.pipeline.nodes import Nodes
from services.pipeline.source.options import BOOTSTRAP, KAFKA, Options

__all__ = ["nodes_of"]


def nodes_of(options: Options) -> Nodes:
    """Returns the nodes, without a connection yet.

    Raises ValueError with the option, OSError for a file it names, ModuleNotFoundError if gRPC is not installed.
    """
    if not options.kafka:
        try:
            from quorate.pipeline.grpc_nodes import GrpcNodes
        except ModuleNotFoundError as missing:
            where = "on the driver and on each worker"
            raise ModuleNotFoundError(
                f"the option endpoints needs gRPC, and {missing.name} is not installed:"
                f" pip install 'pyspark-kraft[quorate]' (the wheel's extra quorate) {where}",
                name=missing.name,
            ) from None
        return GrpcNodes(options.endpoints, options.store_files)
    properties = dict(options.kafka)
    try:
        bootstrap = parse_bootstrap(properties[BOOTSTRAP])
    except ValueError as problem:
        raise ValueError(f"{KAFKA}{BOOTSTRAP}: {problem}") from None
    return KafkaNodes(bootstrap, parse_client_config(properties))
