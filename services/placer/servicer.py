"""The gRPC servicer of `kraft.service.Placer`: converts messages and calls `quorate.placement`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator
from functools import lru_cache
from typing import Any

import grpc

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, Racks, Random, Replicas, UsableBroker, place
from services.placer.metrics import PLACED, REFUSED

BROKER_SETS_KEPT = 8
"""Broker sets that are cached with their racks sorted, as sorting takes longer than placing one partition."""

PARTITIONS_MAX = 10_000
"""Most partitions of one topic, as Kafka's ReplicationControlManager.MAX_PARTITIONS_PER_BATCH."""
REPLICAS_MAX = 100_000
"""Most replicas of one topic, all partitions together."""


PARTITIONS_PER_TURN = 1_000
"""The partitions that are written between two turns of others: some 2 ms of CPU."""


class PlacerService(PlacerServicer):
    """Serves `kraft.service.Placer`; its only state is a cache of sorted broker sets."""

    async def Place(self, request: PlaceRequest, context: grpc.aio.ServicerContext[Any, Any]) -> PlaceResponse:
        """Places each topic or refuses it with an error of its own. Raises ApiError for an invalid list of brokers."""
        return await _answer(request, _racks_of(request, None))

    async def PlaceStream(
        self, request_iterator: AsyncIterable[PlaceRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[PlaceResponse]:
        """Answers each request in order, as `Place` does; one that is refused as a whole ends the stream."""
        racks: Racks | None = None
        async for request in request_iterator:
            racks = _racks_of(request, racks)
            yield await _answer(request, racks)


def _racks_of(request: PlaceRequest, before: Racks | None) -> Racks:
    """Returns the request's brokers by rack, or those of the request before it. Raises ApiError(INVALID_REQUEST)."""
    if not request.brokers_as_before:
        return _racks(
            tuple(
                UsableBroker(id=broker.id, rack=broker.rack if broker.HasField("rack") else None, fenced=broker.fenced)
                for broker in request.brokers
            )
        )
    if before is None or request.brokers:
        why = f"there are {len(request.brokers)} in it" if request.brokers else "none was before it"
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"brokers_as_before = true: the request leaves out brokers, and follows one that has them; {why}",
            {"field": "brokers_as_before"},
        )
    return before


async def _answer(request: PlaceRequest, racks: Racks) -> PlaceResponse:
    chance = random.Random(request.seed) if request.HasField("seed") else random.Random()
    response = PlaceResponse()
    for topic in request.topics:
        await _write_topic(response.topics.add(), _placed(topic, racks, chance))
    return response


@lru_cache(maxsize=BROKER_SETS_KEPT)
def _racks(brokers: tuple[UsableBroker, ...]) -> Racks:
    return Racks.of(brokers)


def _check(spec: PlacementSpec) -> None:
    """Raises ApiError(POLICY_VIOLATION) for a topic with more partitions or replicas than a request may place."""
    count, replicas = spec.partition_count, spec.partition_count * spec.replication_factor
    if count > PARTITIONS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"{count} partitions; a request places at most {PARTITIONS_MAX}")
    if replicas > REPLICAS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"{replicas} replicas; a request places at most {REPLICAS_MAX}")


def _placed(topic: PlaceRequest.Topic, racks: Racks, chance: Random) -> tuple[Replicas, ...] | ApiError:
    spec = PlacementSpec(partition_count=topic.partition_count, replication_factor=topic.replication_factor)
    try:
        _check(spec)
        placement = place(spec, racks, chance)
    except ApiError as refusal:
        REFUSED.add(1)
        return refusal
    PLACED.add(len(placement))
    return placement


async def _write_topic(topic: PlaceResponse.Topic, placed: tuple[Replicas, ...] | ApiError) -> None:
    """Writes one topic's placement or refusal; other tasks run after every `PARTITIONS_PER_TURN` partitions."""
    if isinstance(placed, ApiError):
        topic.error_code, topic.error_message = placed.code, placed.message
        placed = ()
    for start in range(0, max(1, len(placed)), PARTITIONS_PER_TURN):
        for replicas in placed[start : start + PARTITIONS_PER_TURN]:
            topic.partitions.add(replicas=replicas)
        await asyncio.sleep(0)
