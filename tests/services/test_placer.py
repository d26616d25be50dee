"""The placer as its callers see it: a real server on loopback that places, repeats itself on demand, and refuses."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, Racks, UsableBroker, place
from quorate.runtime.client import Client, open_channel
from quorate.runtime.server import Server
from services.controller.placement_requests import Placing
from services.placer.servicer import PlacerService

Broker = PlaceRequest.Broker
Topic = PlaceRequest.Topic

SIX_BROKERS = [Broker(id=node_id, rack="abc"[node_id % 3]) for node_id in range(6)]


@asynccontextmanager
async def serving_at() -> AsyncIterator[str]:
    server = Server()
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, PlacerService())
    port = server.listen("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(grace_s=0)


@asynccontextmanager
async def serving() -> AsyncIterator[PlacerStub]:
    async with serving_at() as address, open_channel(address) as channel:
        yield PlacerStub(channel)


def replicas(topic: PlaceResponse.Topic) -> list[tuple[int, ...]]:
    return [tuple(partition.replicas) for partition in topic.partitions]


async def test_places_every_partition_of_every_topic() -> None:
    request = PlaceRequest(
        brokers=SIX_BROKERS,
        topics=[Topic(partition_count=12, replication_factor=3), Topic(partition_count=1, replication_factor=1)],
    )
    async with serving() as placer:
        answer = await placer.Place(request)

    assert [0, 0] == [topic.error_code for topic in answer.topics]
    first, second = map(replicas, answer.topics)
    assert (12, 1) == (len(first), len(second))
    assert all({"a", "b", "c"} == {"abc"[node_id % 3] for node_id in placed} for placed in first)
    assert {2} == set(Counter(placed[0] for placed in first).values()), "leaders are spread evenly"


async def test_a_seed_makes_the_answer_repeatable_and_is_that_of_the_core() -> None:
    request = PlaceRequest(brokers=SIX_BROKERS, topics=[Topic(partition_count=20, replication_factor=2)], seed=42)
    async with serving() as placer:
        answers = [await placer.Place(request) for _ in range(3)]

    racks = Racks.of([UsableBroker(id=broker.id, rack=broker.rack) for broker in SIX_BROKERS])
    expected = place(PlacementSpec(partition_count=20, replication_factor=2), racks, Random(42))
    for answer in answers:
        assert list(expected) == replicas(answer.topics[0])


async def test_a_seed_of_zero_is_a_seed() -> None:
    topics = [Topic(partition_count=50, replication_factor=3)]
    async with serving() as placer:
        one, other = [await placer.Place(PlaceRequest(brokers=SIX_BROKERS, topics=topics, seed=0)) for _ in range(2)]
        unseeded = [await placer.Place(PlaceRequest(brokers=SIX_BROKERS, topics=topics)) for _ in range(3)]

    assert one == other
    assert len({answer.SerializeToString() for answer in unseeded}) > 1, "without a seed each placement is drawn anew"


async def test_a_topic_that_cannot_be_placed_does_not_spoil_the_others() -> None:
    request = PlaceRequest(
        brokers=SIX_BROKERS[:2],
        topics=[
            Topic(partition_count=1, replication_factor=3),
            Topic(partition_count=1, replication_factor=2),
            Topic(partition_count=0, replication_factor=1),
        ],
    )
    async with serving() as placer:
        answer = await placer.Place(request)

    assert [ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS] == [
        topic.error_code for topic in answer.topics
    ]
    assert [0, 1, 0] == [len(topic.partitions) for topic in answer.topics]
    assert "needs as many brokers, but only 2 can be used" in answer.topics[0].error_message


async def test_a_controller_tells_which_topic_the_placer_refused() -> None:
    brokers = [UsableBroker(id=broker.id, rack=broker.rack) for broker in SIX_BROKERS[:2]]
    wide = PlacementSpec(partition_count=1, replication_factor=9)
    async with serving_at() as address:
        placers = Client([address], PlacerStub)
        found = await Placing(placers, lambda: brokers).place(
            [("wide", wide), ("fits", replace(wide, replication_factor=2))]
        )
        await placers.close()

    refusal = found["wide"]
    assert isinstance(refusal, ApiError)
    assert refusal.message.startswith("topic 'wide': a replication factor of 9 needs as many brokers, but only 2 ")
    assert {"topic": "wide"} == refusal.metadata
    assert not isinstance(found["fits"], ApiError)


async def test_nobody_is_left_to_hear_that_the_placer_is_away_and_nothing_is_reported_as_lost() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    elsewhere = Server()  # it serves no placer: whoever asks it is refused
    placers = Client([f"127.0.0.1:{elsewhere.listen('127.0.0.1:0')}"], PlacerStub)
    await elsewhere.start()
    placing = Placing(placers, lambda: ())
    wanted = [("a", PlacementSpec(partition_count=1, replication_factor=1))]
    who_left = asyncio.create_task(placing.place(wanted))
    for _ in range(5):  # the request is then under way, so that nobody else shares it
        await asyncio.sleep(0)
    who_left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await who_left
    # Whoever asks next waits for the answer of the one who left.
    with pytest.raises(ApiError):
        await placing.place(wanted)
    await placers.close()
    await elsewhere.stop(grace_s=0)
    del placing
    gc.collect()
    await asyncio.sleep(0)

    assert [] == reported


async def test_a_fenced_broker_never_leads() -> None:
    brokers = [Broker(id=0, fenced=True), Broker(id=1), Broker(id=2)]
    request = PlaceRequest(brokers=brokers, topics=[Topic(partition_count=30, replication_factor=3)])
    async with serving() as placer:
        answer = await placer.Place(request)
        all_fenced = await placer.Place(PlaceRequest(brokers=brokers[:1], topics=request.topics))

    assert {1, 2} == {placed[0] for placed in replicas(answer.topics[0])}
    assert ErrorCode.INVALID_REPLICATION_FACTOR == all_fenced.topics[0].error_code


async def test_a_broker_without_a_rack_is_not_in_a_rack_without_a_name() -> None:
    """Absent is one rack more, and the empty name is another: replicas are spread over both."""
    brokers = [Broker(id=0), Broker(id=1), Broker(id=2, rack=""), Broker(id=3, rack="")]
    request = PlaceRequest(brokers=brokers, topics=[Topic(partition_count=8, replication_factor=2)])
    async with serving() as placer:
        answer = await placer.Place(request)

    assert all({0, 1} & set(placed) and {2, 3} & set(placed) for placed in replicas(answer.topics[0]))


@pytest.mark.parametrize(
    ("brokers", "says"),
    [
        ([Broker(id=1), Broker(id=1, rack="b")], "broker 1 is listed twice"),
        ([Broker(id=-1)], "broker id -1 is negative"),
    ],
)
async def test_brokers_that_make_no_sense_refuse_the_whole_request(brokers: list[Broker], says: str) -> None:
    request = PlaceRequest(brokers=brokers, topics=[Topic(partition_count=1, replication_factor=1)])
    async with serving() as placer:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await placer.Place(request)
        served = await placer.Place(PlaceRequest(brokers=[Broker(id=1)], topics=request.topics))

    assert grpc.StatusCode.INVALID_ARGUMENT is refusal.value.code()
    assert says in (refusal.value.details() or "")
    assert [(1,)] == replicas(served.topics[0]), "a refusal changes nothing for the next request"


async def test_nothing_asked_is_nothing_placed() -> None:
    async with serving() as placer:
        assert PlaceResponse() == await placer.Place(PlaceRequest())


async def test_requests_do_not_mix() -> None:
    """Sorted broker sets are kept for a while: each answer must still be of its own brokers."""
    async with serving() as placer:
        asked = [
            PlaceRequest(brokers=[Broker(id=node_id)], topics=[Topic(partition_count=1, replication_factor=1)])
            for node_id in range(20)
        ]
        answers = await asyncio.gather(*(placer.Place(request) for request in asked))

    assert [(node_id,) for node_id in range(20)] == [replicas(answer.topics[0])[0] for answer in answers]
