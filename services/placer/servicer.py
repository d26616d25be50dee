"""gRPC ↔ the placement core, nothing else."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import grpc

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer
from quorate.errors import ApiError
from quorate.placement import PlacementSpec, Racks, Random, UsableBroker, place

BROKER_SETS_KEPT = 8
"""Sorting a broker set takes longer than placing a partition on it; few sets are current at once."""


class Servicer(PlacerServicer):
    """Serves `kraft.service.Placer`. It keeps nothing but sorted broker sets."""

    async def Place(self, request: PlaceRequest, context: grpc.aio.ServicerContext[Any, Any]) -> PlaceResponse:
        """Each topic is placed or refused by itself; brokers that make no sense refuse the whole request."""
        racks = _racks(
            tuple(
                UsableBroker(id=broker.id, rack=broker.rack if broker.HasField("rack") else None, fenced=broker.fenced)
                for broker in request.brokers
            )
        )
        chance = random.Random(request.seed) if request.HasField("seed") else random.Random()
        return PlaceResponse(topics=[_placed(topic, racks, chance) for topic in request.topics])


@lru_cache(maxsize=BROKER_SETS_KEPT)
def _racks(brokers: tuple[UsableBroker, ...]) -> Racks:
    return Racks.of(brokers)


def _placed(topic: PlaceRequest.Topic, racks: Racks, chance: Random) -> PlaceResponse.Topic:
    spec = PlacementSpec(partition_count=topic.partition_count, replication_factor=topic.replication_factor)
    try:
        placement = place(spec, racks, chance)
    except ApiError as refusal:
        return PlaceResponse.Topic(error_code=refusal.code, error_message=refusal.message)
    return PlaceResponse.Topic(partitions=[PlaceResponse.Partition(replicas=replicas) for replicas in placement])
