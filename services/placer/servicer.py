"""The gRPC servicer of `kraft.service.Placer`: converts messages and calls `quorate.placement`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator
from functools import lru_cache
from itertools import chain
from typing import Any

import grpc

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer
from quorate.errors import ApiError, ErrorCode
from quorate.placement import REQUEST_MAX, PlacementSpec, Racks, Random, Replicas, UsableBroker, check_size, place
from services.placer.metrics import PLACED, REFUSED

BROKER_SETS_CACHED = 8
"""Broker sets that are cached with their racks sorted, as sorting takes longer than placing one partition."""

PARTITIONS_PER_TURN = 1_000
"""The partitions that are placed between two turns of others: some 2 ms of CPU."""
TOPIC_AS_PARTITIONS = 10
"""The cost of a topic beside its partitions, as a number of partitions."""


class PlacerService(PlacerServicer):
    """Serves `kraft.service.Placer`; its only state is a cache of sorted broker sets."""

    async def Place(self, request: PlaceRequest, context: grpc.aio.ServicerContext[Any, Any]) -> PlaceResponse:
        """Answers each topic's replicas for each partition, in the order of the request, or an error of its own.

        With `seed` the same request gives the same answer. Raises ApiError(INVALID_REQUEST) for an invalid list of
        brokers, ApiError(POLICY_VIOLATION) for too many topics.
        """
        return await _answer(request, _racks_of(request, None))

    async def PlaceStream(
        self, request_iterator: AsyncIterable[PlaceRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[PlaceResponse]:
        """Answers each request in order, as `Place`; one with `brokers_as_before` is placed on those of the one before.

        Raises ApiError as `Place`, which ends the stream.
        """
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
    if len(request.topics) > REQUEST_MAX:
        message = f"topics: {len(request.topics)} items; a request has at most {REQUEST_MAX}"
        raise ApiError(ErrorCode.POLICY_VIOLATION, message, {"field": "topics"})
    response = PlaceResponse()
    since_turn, room = 0, REQUEST_MAX
    for topic in request.topics:
        since_turn += TOPIC_AS_PARTITIONS + max(0, topic.partition_count)
        if since_turn > PARTITIONS_PER_TURN:
            await asyncio.sleep(0)
            since_turn = 0
        placed = _placed(topic, racks, chance, room)
        answer = response.topics.add()
        if isinstance(placed, ApiError):
            answer.error_code, answer.error_message = placed.code, placed.message
            continue
        room -= topic.partition_count * topic.replication_factor
        if request.replicas_in_one_list:
            answer.replicas.extend(chain.from_iterable(placed))
        else:
            await _write_partitions(answer, placed)
    return response


@lru_cache(maxsize=BROKER_SETS_CACHED)
def _racks(brokers: tuple[UsableBroker, ...]) -> Racks:
    return Racks.of(brokers)


def _placed(topic: PlaceRequest.Topic, racks: Racks, chance: Random, room: int) -> tuple[Replicas, ...] | ApiError:
    spec = PlacementSpec(partition_count=topic.partition_count, replication_factor=topic.replication_factor)
    try:
        check_size(spec, room)
        placement = place(spec, racks, chance)
    except ApiError as refusal:
        REFUSED.add(1)
        return refusal.as_value()
    PLACED.add(len(placement))
    return placement


async def _write_partitions(topic: PlaceResponse.Topic, placed: tuple[Replicas, ...]) -> None:
    """Writes one topic's partitions one by one; other tasks run after every `PARTITIONS_PER_TURN` of them."""
    for start in range(0, len(placed), PARTITIONS_PER_TURN):
        if start:
            await asyncio.sleep(0)
        for replicas in placed[start : start + PARTITIONS_PER_TURN]:
            topic.partitions.add(replicas=replicas)
