"""Asks a placer for replicas, before the write that needs them: the write itself never waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.new_partitions import Placements
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, UsableBroker
from quorate.runtime.client import Client

DEADLINE_MS: Final = 5_000


async def place(
    placers: Client[PlacerStub],
    brokers: Sequence[UsableBroker],
    wanted: Sequence[tuple[str, PlacementSpec]],
) -> Placements:
    """The replicas of each topic in `wanted`, or why the placer refused it. Raises ApiError when no placer answers."""
    if not wanted:
        return {}
    request = PlaceRequest(
        brokers=[PlaceRequest.Broker(id=broker.id, rack=broker.rack, fenced=broker.fenced) for broker in brokers],
        topics=[
            PlaceRequest.Topic(partition_count=spec.partition_count, replication_factor=spec.replication_factor)
            for _, spec in wanted
        ],
    )
    response: PlaceResponse = await placers.call(lambda stub: stub.Place, request, deadline_ms=DEADLINE_MS)
    return {
        name: ApiError(ErrorCode(topic.error_code), topic.error_message)
        if topic.error_code
        else tuple(tuple(partition.replicas) for partition in topic.partitions)
        for (name, _), topic in zip(wanted, response.topics, strict=True)
    }
