"""The placer as its callers see it: a real server on loopback that places, repeats itself on demand, and refuses."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from random import Random
from typing import Any

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.placement import PlacementSpec, Racks, UsableBroker, place
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.requests.statuses import error_from_call
from services.controller import placement_stream
from services.controller.placement_requests import REPLICAS_PER_ROUND_MAX, Placing
from services.placer.servicer import PlacerService
from tests.runtime.test_telemetry import Recorded
from tests.services.scripted import WITHIN_S

Broker = PlaceRequest.Broker
Topic = PlaceRequest.Topic

SIX_BROKERS = [Broker(id=node_id, rack="abc"[node_id % 3]) for node_id in range(6)]


@asynccontextmanager
async def serving_at(
    placer: PlacerService | None = None, address: str = "127.0.0.1:0", **options: Any
) -> AsyncIterator[str]:
    server = Server(**options)
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, placer or PlacerService())
    port = server.listen(address)
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


async def test_replicas_in_one_list_are_those_of_the_partitions() -> None:
    topics = [Topic(partition_count=count, replication_factor=3) for count in (1_500, 0, 1)]
    asked = PlaceRequest(brokers=SIX_BROKERS, topics=topics, seed=7)
    async with serving() as placer:
        by_partition = await placer.Place(asked)
        asked.replicas_in_one_list = True
        in_one_list = await placer.Place(asked)

    assert [1_500, 0, 1] == [len(topic.partitions) for topic in by_partition.topics]
    assert [[each for one in replicas(topic) for each in one] for topic in by_partition.topics] == [
        list(topic.replicas) for topic in in_one_list.topics
    ]
    assert not any(topic.partitions for topic in in_one_list.topics)
    assert [topic.error_message for topic in by_partition.topics] == [
        topic.error_message for topic in in_one_list.topics
    ]


class Older(PlacerService):
    """Knows nothing of one list."""

    async def PlaceStream(
        self, request_iterator: AsyncIterable[PlaceRequest], context: Any
    ) -> AsyncIterator[PlaceResponse]:
        async def as_before() -> AsyncIterator[PlaceRequest]:
            async for request in request_iterator:
                request.ClearField("replicas_in_one_list")
                yield request

        async for answer in super().PlaceStream(as_before(), context):
            yield answer


class Short(PlacerService):
    """Leaves out the last replica of each topic."""

    async def PlaceStream(
        self, request_iterator: AsyncIterable[PlaceRequest], context: Any
    ) -> AsyncIterator[PlaceResponse]:
        async for answer in super().PlaceStream(request_iterator, context):
            for topic in answer.topics:
                topic.replicas.pop()
            yield answer


@pytest.mark.parametrize("placer", [PlacerService(), Older()], ids=["one list", "an older placer's"])
async def test_a_controller_takes_the_replicas_of_each_partition(placer: PlacerService) -> None:
    spec = PlacementSpec(partition_count=2_000, replication_factor=3)
    async with serving_at(placer) as address:
        placers = Client([address], PlacerStub)
        found = await Placing(placers, lambda: tuple(UsableBroker(id=each) for each in (5, 6, 7))).place([("a", spec)])
        await placers.close()

    placed = found["a"]
    assert isinstance(placed, tuple)
    assert 2_000 == len(placed)
    assert all({5, 6, 7} == set(one) for one in placed)
    assert 6 == len(set(placed))


async def test_a_controller_refuses_an_answer_with_other_than_all_replicas() -> None:
    spec = PlacementSpec(partition_count=2, replication_factor=3)
    async with serving_at(Short()) as address:
        placers = Client([address], PlacerStub)
        found = await Placing(placers, lambda: tuple(UsableBroker(id=each) for each in (5, 6, 7))).place([("a", spec)])
        await placers.close()

    refusal = found["a"]
    assert isinstance(refusal, ApiError)
    assert "topic 'a': the placer answered 5 replicas; it was asked for 6" == refusal.message


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


ONE = PlacementSpec(partition_count=1, replication_factor=1)


async def test_a_stream_answers_in_order_and_keeps_the_brokers_of_the_request_before() -> None:
    topics = [Topic(partition_count=1, replication_factor=1)]
    two = [Broker(id=7), Broker(id=8, fenced=True)]
    async with serving() as placer:
        stream = placer.PlaceStream()
        answers = []
        for request in (
            PlaceRequest(brokers=two, topics=topics),
            PlaceRequest(brokers_as_before=True, topics=topics * 2),
            PlaceRequest(brokers=[Broker(id=9)], topics=topics),
            PlaceRequest(brokers_as_before=True, topics=topics),
        ):
            await stream.write(request)
            answers.append(await stream.read())
        await stream.done_writing()
        last = await stream.read()

    assert grpc.aio.EOF is last
    assert [[[(7,)]], [[(7,)], [(7,)]], [[(9,)]], [[(9,)]]] == [
        [replicas(topic) for topic in answer.topics] for answer in answers
    ]


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        ([PlaceRequest(brokers_as_before=True)], "brokers_as_before = true: .* none was before it"),
        (
            [PlaceRequest(brokers=SIX_BROKERS), PlaceRequest(brokers=SIX_BROKERS[:2], brokers_as_before=True)],
            "brokers_as_before = true: the request leaves out brokers, .* there are 2 in it",
        ),
        ([PlaceRequest(brokers=[Broker(id=-1)])], "broker id -1 is negative"),
    ],
)
async def test_a_request_that_makes_no_sense_ends_the_stream(requests: list[PlaceRequest], says: str) -> None:
    async with serving() as placer:
        stream = placer.PlaceStream(iter(requests))
        with pytest.raises(grpc.aio.AioRpcError, match=says) as refusal:
            [answer async for answer in stream]
        if requests[0].brokers_as_before:
            with pytest.raises(grpc.aio.AioRpcError, match=says):
                await placer.Place(requests[0])

    assert grpc.StatusCode.INVALID_ARGUMENT is refusal.value.code()


class Counting(PlacerService):
    """Counts the requests by kind, and the brokers and topics of those of streams."""

    def __init__(self) -> None:
        self.calls = 0
        self.streams = 0
        self.brokers: list[int] = []
        self.topics: list[int] = []

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        self.calls += 1
        return await super().Place(request, context)

    async def PlaceStream(
        self, request_iterator: AsyncIterable[PlaceRequest], context: Any
    ) -> AsyncIterator[PlaceResponse]:
        self.streams += 1

        async def counted() -> AsyncIterator[PlaceRequest]:
            async for request in request_iterator:
                self.brokers.append(len(request.brokers))
                self.topics.append(len(request.topics))
                yield request

        async for answer in super().PlaceStream(counted(), context):
            yield answer


async def test_a_controller_places_on_one_stream_and_names_brokers_when_they_change() -> None:
    brokers = [UsableBroker(id=1), UsableBroker(id=2)]
    placer = Counting()
    async with serving_at(placer) as address:
        placers = Client([address], PlacerStub)
        placing = Placing(placers, lambda: tuple(brokers))
        first = [await placing.place([("a", ONE)]) for _ in range(3)]
        brokers[:] = [UsableBroker(id=3)]
        second = [await placing.place([("a", ONE)]) for _ in range(2)]
        await placers.close()

    assert (0, 1, [2, 0, 0, 1, 0]) == (placer.calls, placer.streams, placer.brokers)
    assert all(found["a"] in (((1,),), ((2,),)) for found in first)
    assert [{"a": ((3,),)}] * 2 == second


async def test_requests_that_come_before_one_is_due_share_a_message() -> None:
    placer, due = Counting(), asyncio.Event()

    async def until_due() -> None:
        await due.wait()

    async with serving_at(placer) as address:
        placers = Client([address], PlacerStub)
        placing = Placing(placers, lambda: (UsableBroker(id=1),), due=until_due)
        asked = []
        for name in ("a", "b", "c"):
            asked.append(asyncio.ensure_future(placing.place([(name, ONE)])))
            await asyncio.sleep(0)
        due.set()
        found = await asyncio.gather(*asked)
        await placers.close()

    assert [{"a": ((1,),)}, {"b": ((1,),)}, {"c": ((1,),)}] == found
    assert [1] == placer.brokers


async def test_who_goes_away_takes_nothing_from_those_that_share_its_message() -> None:
    due = asyncio.Event()

    async def until_due() -> None:
        await due.wait()

    async with serving_at() as address:
        placers = Client([address], PlacerStub)
        placing = Placing(placers, lambda: (UsableBroker(id=1),), due=until_due)
        asked = [asyncio.ensure_future(placing.place([(name, ONE)])) for name in ("a", "b", "c")]
        await asyncio.sleep(0)
        asked[0].cancel()
        await asyncio.wait(asked[:1])
        due.set()
        async with asyncio.timeout(60):
            found = await asyncio.gather(*asked[1:])
        await placers.close()

    assert asked[0].cancelled()
    assert [{"b": ((1,),)}, {"c": ((1,),)}] == found


async def test_a_message_that_is_large_enough_takes_no_other_request() -> None:
    """So a topic of one partition does not fail with a message that is too long or takes too long."""
    placer, due = Counting(), asyncio.Event()
    large = PlacementSpec(partition_count=10_000, replication_factor=6)
    assert REPLICAS_PER_ROUND_MAX // 2 < 60_000

    async def until_due() -> None:
        await due.wait()

    async with serving_at(placer) as address:
        placers = Client([address], PlacerStub)
        placing = Placing(placers, lambda: tuple(UsableBroker(id=each) for each in range(6)), due=until_due)
        wanted = {"a": large, "b": large, "c": large, "d": ONE}
        asked = [asyncio.ensure_future(placing.place([each])) for each in wanted.items()]
        await asyncio.sleep(0)
        due.set()
        found = await asyncio.gather(*asked)
        await placers.close()

    assert [spec.partition_count for spec in wanted.values()] == [
        len(placed[name]) for name, placed in zip(wanted, found, strict=True)
    ]
    assert [2, 2] == placer.topics


async def test_a_controller_finds_a_placer_again_whose_process_is_another_now() -> None:
    before, after = Counting(), Counting()
    async with serving_at(before) as address:
        placers = Client([address], PlacerStub)
        placing = Placing(placers, lambda: (UsableBroker(id=1),))
        found = [await placing.place([("a", ONE)])]
    async with serving_at(after, address):
        found += [await placing.place([("a", ONE)]) for _ in range(2)]
        await placers.close()

    assert [{"a": ((1,),)}] * 3 == found
    assert (1, [1]) == (before.streams, before.brokers)
    # The request that finds the stream ended is sent again by a call; the next one opens a stream, with the brokers.
    assert (1, [1]) == (after.calls, after.brokers)


class Hanging(Counting):
    """Takes requests, and answers none."""

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        self.calls += 1
        await asyncio.Event().wait()
        return PlaceResponse()

    async def PlaceStream(
        self, request_iterator: AsyncIterable[PlaceRequest], context: Any
    ) -> AsyncIterator[PlaceResponse]:
        self.streams += 1
        await asyncio.Event().wait()
        yield PlaceResponse()


async def test_while_no_placer_answers_the_controller_places_and_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped placer held up each CreateTopics, and its bare status ended the connection of the gateway's client."""
    monkeypatch.setattr(placement_stream, "DEADLINE_MS", 50)
    hanging = Hanging()
    too_large = PlacementSpec(partition_count=10_001, replication_factor=1)
    async with serving_at(hanging) as address:
        placers = Client([address], PlacerStub)
        placing = Placing(placers, lambda: (UsableBroker(id=1), UsableBroker(id=2, fenced=True)))
        first = await placing.place([("a", ONE)])
        others = await asyncio.gather(*(placing.place([("b", ONE), ("c", too_large)]) for _ in range(3)))
        await placers.close()

    assert {"a": ((1,),)} == first
    assert [((1,),)] * 3 == [each["b"] for each in others]
    refused = [each["c"] for each in others]
    assert [ErrorCode.POLICY_VIOLATION] * 3 == [each.code for each in refused if isinstance(each, ApiError)]
    assert 1 == hanging.calls + hanging.streams


@pytest.mark.parametrize("traced", [False, True])
async def test_a_placer_that_does_not_answer_is_left_for_another(traced: bool) -> None:
    """By the request that has waited for it, and by those after it."""
    recorded, hanging, other = Recorded("controller"), Hanging(), Counting()
    async with serving_at(hanging) as first, serving_at(other) as second:
        placers = Client([first, second], PlacerStub)
        placing = Placing(placers, lambda: (UsableBroker(id=1),))
        with recorded.telemetry.span("CreateTopics", root=True) if traced else nullcontext():
            found = [await placing.place([("a", ONE)]) for _ in range(3)]
        await placers.close()

    assert [{"a": ((1,),)}] * 3 == found
    assert 1 == hanging.calls + hanging.streams
    assert ((3, 0) if traced else (0, 1)) == (other.calls, other.streams)


async def test_a_traced_request_is_placed_by_a_call_with_spans_of_its_own() -> None:
    recorded, served = Recorded("controller"), Recorded("placer")
    placer = Counting()
    async with serving_at(placer, telemetry=served.telemetry) as address:
        placers = Client([address], PlacerStub, telemetry=recorded.telemetry)
        with recorded.telemetry.span("CreateTopics", root=True):
            await Placing(placers, lambda: (UsableBroker(id=1),)).place([("a", ONE)])
        await placers.close()

    assert (1, 0) == (placer.calls, placer.streams)
    assert {"kraft.service.Placer/Place CLIENT"} <= recorded.spans().keys()
    assert {"kraft.service.Placer/Place SERVER"} <= served.spans().keys()


async def test_nobody_is_left_to_hear_that_the_placer_is_away_and_nothing_is_reported_as_lost() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    elsewhere = Server()  # it serves no placer: its caller is refused
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
    # The next caller waits for the answer of the one that left.
    found = await placing.place(wanted)
    assert isinstance(found["a"], ApiError)  # there are no brokers
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


@pytest.mark.parametrize(
    ("partitions", "replicas", "says"),
    [
        (2**31 - 1, 1, "2147483647 partitions; at most 10000 of a topic are placed"),
        (10_001, 1, "10001 partitions"),
        (10_000, 2**31 - 1, "replicas; at most 100000 of a topic are placed"),
    ],
)
async def test_a_placer_refuses_a_topic_that_is_too_large_and_places_the_others(
    partitions: int, replicas: int, says: str
) -> None:
    topics = [
        PlaceRequest.Topic(partition_count=partitions, replication_factor=replicas),
        PlaceRequest.Topic(partition_count=2, replication_factor=2),
    ]
    async with serving() as placer:
        answer = await placer.Place(PlaceRequest(brokers=SIX_BROKERS, topics=topics))

    assert (ErrorCode.POLICY_VIOLATION, ErrorCode.NONE) == tuple(topic.error_code for topic in answer.topics)
    assert says in answer.topics[0].error_message
    assert 2 == len(answer.topics[1].partitions)


async def test_a_placer_places_no_more_in_one_request_than_its_limit() -> None:
    """It would be seconds, and an answer that no client takes, for 500 bytes."""
    largest = PlaceRequest.Topic(partition_count=10_000, replication_factor=5)
    request = PlaceRequest(brokers=SIX_BROKERS, topics=[largest] * 60, replicas_in_one_list=True)
    async with serving() as placer:
        answer = await placer.Place(request, timeout=WITHIN_S)

    refused = "50000 replicas; a request places at most 200000, and the topics before have all but 0"
    assert [ErrorCode.NONE] * 4 + [ErrorCode.POLICY_VIOLATION] * 56 == [topic.error_code for topic in answer.topics]
    assert {refused} == {topic.error_message for topic in answer.topics[4:]}


async def test_a_placer_refuses_a_request_of_too_many_topics_as_a_whole() -> None:
    request = PlaceRequest(brokers=SIX_BROKERS, topics=[PlaceRequest.Topic()] * 200_001)
    async with serving() as placer:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await placer.Place(request, timeout=WITHIN_S)
    refusal: ApiError = error_from_call(caught.value)

    assert ErrorCode.POLICY_VIOLATION is refusal.code
    assert "topics: 200001 items; a request has at most 200000" == refusal.message


async def test_a_negative_count_does_not_keep_a_placer_from_giving_others_their_turn() -> None:
    topics = [PlaceRequest.Topic(partition_count=-(2**31), replication_factor=1)]
    topics += [PlaceRequest.Topic(partition_count=1_000, replication_factor=3)] * 20
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    request = PlaceRequest(brokers=SIX_BROKERS, topics=topics, replicas_in_one_list=True)
    answer = await PlacerService().Place(request, None)  # type: ignore[arg-type]
    other.cancel()

    assert ErrorCode.INVALID_PARTITIONS == answer.topics[0].error_code
    assert 20 == turns
