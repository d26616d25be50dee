"""Small topics that are alike are placed ahead: a controller's requests to a real placer, counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import pytest

from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, UsableBroker
from quorate.runtime.clients.client import Client
from services.controller.placed_ahead import AHEAD, KINDS_MAX, PlacedAhead
from services.controller.placement_requests import Placing
from services.placer.servicer import PlacerService
from tests.runtime.test_telemetry import Recorded
from tests.services.placer.test_placer import ONE, Counting, serving_at

ALIKE: Final = PlacementSpec(partition_count=1, replication_factor=3)


@asynccontextmanager
async def placing_on(placer: PlacerService, brokers: list[tuple[UsableBroker, ...]]) -> AsyncIterator[Placing]:
    """A controller's side; the usable brokers are the last of `brokers`."""
    async with serving_at(placer) as address:
        placers = Client([address], PlacerStub)
        yield Placing(placers, lambda: brokers[-1])
        await placers.close()


def fourteen(start: int = 0) -> tuple[UsableBroker, ...]:
    return tuple(UsableBroker(id=each) for each in range(start, start + 14))


async def test_topics_that_are_alike_are_placed_ahead_many_in_a_message() -> None:
    placer = Counting()
    async with placing_on(placer, [fourteen()]) as placing:
        found = [(await placing.place([("a", ALIKE)]))["a"] for _ in range(AHEAD + 2)]
        other = await placing.place([("b", ONE)])

    # The second one shows that they are asked for often; with half of them left as many again are.
    assert [1, 1 + AHEAD, AHEAD // 2] == placer.topics[:3]
    assert 1 == placer.topics[-1]
    assert len(placer.topics) <= 5
    assert not isinstance(other["b"], ApiError)
    replicas = [each[0] for each in found if not isinstance(each, ApiError)]
    assert [3] * (AHEAD + 2) == [len(set(each)) for each in replicas]
    assert len(set(replicas)) > 4  # of the 14 that there are: each was made for one topic


async def test_what_was_placed_ahead_is_of_no_use_once_the_brokers_are_others() -> None:
    placer, brokers = Counting(), [fourteen()]
    async with placing_on(placer, brokers) as placing:
        for _ in range(3):
            await placing.place([("a", ALIKE)])
        brokers.append(fourteen(20))
        [replicas] = (await placing.place([("a", ALIKE)]))["a"]

    assert [1, 1 + AHEAD, 1] == placer.topics
    assert min(replicas) >= 20


async def test_what_was_placed_on_the_brokers_before_is_not_kept() -> None:
    """They became others while the placer was at work."""
    brokers = [fourteen()]
    ahead = PlacedAhead(lambda: 0.0)
    assert ahead.take([ALIKE], brokers[0]) == [None]
    assert ahead.take([ALIKE], brokers[0]) == [None]
    assert [ALIKE] * AHEAD == ahead.wanted()
    brokers.append(fourteen(20))
    assert ahead.take([ALIKE], brokers[1]) == [None]
    ahead.add(ALIKE, ((1, 2, 3),), brokers[0])
    assert ahead.take([ALIKE], brokers[1]) == [None]
    ahead.add(ALIKE, ((20, 21, 22),), brokers[1])
    assert [((20, 21, 22),)] == ahead.take([ALIKE], brokers[1])


@pytest.mark.parametrize(
    "spec",
    [PlacementSpec(partition_count=11, replication_factor=3), PlacementSpec(partition_count=1, replication_factor=15)],
    ids=["large", "impossible"],
)
async def test_topics_that_are_large_or_refused_are_placed_one_by_one(spec: PlacementSpec) -> None:
    placer = Counting()
    async with placing_on(placer, [fourteen()]) as placing:
        found = [(await placing.place([("a", spec)]))["a"] for _ in range(4)]

    refused = [each.code for each in found if isinstance(each, ApiError)]
    assert [ErrorCode.INVALID_REPLICATION_FACTOR] * (4 if spec.replication_factor == 15 else 0) == refused
    assert len(placer.topics) == 4
    assert sum(placer.topics) <= 4 + 2 * AHEAD * len(refused)


async def test_a_traced_request_takes_nothing_that_was_placed_ahead() -> None:
    recorded, placer = Recorded("controller"), Counting()
    async with placing_on(placer, [fourteen()]) as placing:
        for _ in range(3):
            await placing.place([("a", ALIKE)])
        with recorded.telemetry.span("CreateTopics", root=True):
            await placing.place([("a", ALIKE)])

    assert ([1, 1 + AHEAD], 1) == (placer.topics, placer.calls)


def test_only_topics_that_come_soon_after_one_another_are_placed_ahead() -> None:
    now_s, brokers = [0.0], fourteen()
    ahead = PlacedAhead(lambda: now_s[0])
    for now_s[0] in (0.0, 1.1, 2.2):
        assert ahead.take([ALIKE], brokers) == [None]
        assert [] == ahead.wanted()
    for number in range(KINDS_MAX):
        ahead.take([PlacementSpec(partition_count=1, replication_factor=4 + number)], brokers)
    now_s[0] += 1
    assert ahead.take([ALIKE], brokers) == [None]  # forgotten: so many other kinds came since
    assert [] == ahead.wanted()
    assert ahead.take([ALIKE], brokers) == [None]
    assert [ALIKE] * AHEAD == ahead.wanted()


def test_many_topics_of_one_request_are_no_sign_that_others_come() -> None:
    brokers = fourteen()
    ahead = PlacedAhead(lambda: 0.0)
    assert ahead.take([ALIKE] * 3, brokers) == [None] * 3
    assert [] == ahead.wanted()

    assert ahead.take([replace(ALIKE, start_partition=5)], brokers) == [None]  # of the same kind
    assert [ALIKE] * AHEAD == ahead.wanted()


async def test_a_round_that_fails_takes_nobody_with_it_who_comes_later() -> None:
    placer, brokers = Counting(), [fourteen()]
    async with placing_on(placer, brokers) as placing:
        others = brokers.pop()
        with pytest.raises(IndexError):
            await placing.place([("a", ALIKE)])
        brokers.append(others)

        assert not isinstance((await placing.place([("a", ALIKE)]))["a"], ApiError)
