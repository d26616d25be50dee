"""Places replicas in this process, while no placer answers: a topic is created, whatever has become of the placers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import chain
from typing import Final

from kraft.service.placer_pb2 import PlaceResponse
from quorate.errors import ApiError
from quorate.placement import REQUEST_MAX, PlacementSpec, Racks, UsableBroker, check_size, place

__all__ = ["placed_here"]

PER_TURN: Final = 1_000
"""The partitions that are placed between two turns of others: some 2 ms of CPU."""
TOPIC_AS_PARTITIONS: Final = 10
"""The cost of a topic beside its partitions, as a number of partitions."""


async def placed_here(brokers: Sequence[UsableBroker], specs: Sequence[PlacementSpec]) -> PlaceResponse:
    """Places replicas in this process, as a placer would, by the same limits, with pauses for other tasks.

    The answer has for each of `specs`, in their order, the replicas of all partitions in one list, or the error.
    """
    racks, chance, response = Racks.of(tuple(brokers)), random.Random(), PlaceResponse()
    since_turn, room = 0, REQUEST_MAX
    for spec in specs:
        since_turn += TOPIC_AS_PARTITIONS + max(0, spec.partition_count)
        if since_turn > PER_TURN:
            await asyncio.sleep(0)
            since_turn = 0
        answer = response.topics.add()
        try:
            check_size(spec, room)
            answer.replicas.extend(chain.from_iterable(place(spec, racks, chance)))
        except ApiError as refusal:
            answer.error_code, answer.error_message = refusal.code, refusal.message
        else:
            room -= spec.partition_count * spec.replication_factor
    return response
