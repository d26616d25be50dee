"""The observer against controllers that answer by a script: leaders, checkpoints, divergence, and bad answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from kraft import Message
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from quorate.errors import ApiError, ErrorCode
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.network.listening import ConnectedClient, Listening
from quorate.network.observer import RETRY_S, Checkpoint, FetchedBatch, Observer
from quorate.network.server import serving
from quorate.nouns import METADATA_TOPIC_ID, OffsetAndEpoch
from quorate.protocol import Request, api_of
from quorate.protocol.apis import API_VERSIONS
from quorate.wire.batch import data_batch
from tests.protocol.pair import SERVED, describe

LOOPBACK = "127.0.0.1"
CLUSTER_ID = "n3Vb0q7mSlW8cYkXe2RtZw"
FETCH = api_of(FetchRequest).key
IMPATIENT = ClientConfig(api_timeout_ms=300)

Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData


def batch(offset: int, count: int = 1, epoch: int = 1) -> bytes:
    values = [f"record {offset + index}".encode() for index in range(count)]
    return data_batch(base_offset=offset, epoch=epoch, timestamp_ms=0, values=values)


def answer(
    *records: bytes, end: int = 0, error: ErrorCode = ErrorCode.NONE, whole: ErrorCode = ErrorCode.NONE, **more: object
) -> FetchResponse:
    """A fetch's answer with these batches; `end` is the high watermark, `more` other fields of the partition."""
    endpoints = more.pop("endpoints", ())
    partition = Partition(error_code=error, high_watermark=end, records=b"".join(records), **more)
    return FetchResponse(error_code=whole, responses=(Topic(partitions=(partition,)),), node_endpoints=endpoints)


class Script:
    """A controller: fetches are answered in the order of the script, the last answer again and again."""

    def __init__(self, *answers: Message | Callable[[FetchRequest], Message], checkpoint: bytes = b"") -> None:
        self.answers = list(answers)
        self.checkpoint = checkpoint
        self.fetches: list[FetchRequest] = []
        self.connections: set[int] = set()
        """The clients' ports."""

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        self.connections.add(client.port)
        match request.message:
            case DescribeClusterRequest():
                return DescribeClusterResponse(cluster_id=CLUSTER_ID)
            case FetchSnapshotRequest() as asked:
                return self._piece(asked)
            case FetchRequest() as asked:
                self.fetches.append(asked)
                said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                return said if isinstance(said, Message) else said(asked)
        raise AssertionError(request)

    def _piece(self, asked: FetchSnapshotRequest) -> Message:
        (wanted,) = asked.topics[0].partitions
        at = wanted.position
        topic = FetchSnapshotResponse.TopicSnapshot
        piece = topic.PartitionSnapshot(
            snapshot_id=topic.PartitionSnapshot.SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch),
            size=len(self.checkpoint),
            position=at,
            unaligned_records=self.checkpoint[at : at + 50],
        )
        return FetchSnapshotResponse(topics=(topic(partitions=(piece,)),))


@asynccontextmanager
async def listening(
    *scripts: Script, served: Mapping[int, range] = SERVED, port: int = 0, **more: Any
) -> AsyncIterator[list[Endpoint]]:
    """The addresses of these controllers, once their answers know them; `port` is that of the only one."""
    async with asyncio.timeout(120), AsyncExitStack() as stack:
        endpoints = []
        for script in scripts:
            kept = Listening(handle=script, served=served, describe_versions=partial(describe, served=served), **more)
            server = await stack.enter_async_context(serving(kept, LOOPBACK, port))
            endpoints.append((LOOPBACK, server.port))
        for script in scripts:
            script.answers = [
                said(endpoints) if getattr(said, "wants_ports", False) else said for said in script.answers
            ]
        yield endpoints


async def read(*scripts: Script, config: ClientConfig = IMPATIENT) -> list[FetchedBatch | Checkpoint]:
    """What an observer reads that begins with the first of these controllers."""
    async with listening(*scripts) as endpoints:
        return [event async for event in Observer(endpoints[:1], config).events()]


def names(events: list[FetchedBatch | Checkpoint]) -> list[object]:
    return [event.id if isinstance(event, Checkpoint) else event.header.base_offset for event in events]


async def test_it_reads_up_to_the_high_watermark_that_was_told_first() -> None:
    leader = Script(answer(batch(0, 2), batch(2), batch(3), end=3), answer(batch(4, 6), end=4), answer(end=10))
    events = await read(leader)

    assert [0, 2] == names(events)
    (partition,) = leader.fetches[0].topics[0].partitions
    assert leader.fetches[0].topics[0].topic_id == METADATA_TOPIC_ID
    assert (CLUSTER_ID, -1) == (leader.fetches[0].cluster_id, leader.fetches[0].replica_state.replica_id)
    assert (0, 0, 0) == (partition.fetch_offset, partition.current_leader_epoch, partition.last_fetched_epoch)


@pytest.mark.parametrize("left", [30, 70])
async def test_a_batch_that_the_leader_has_cut_is_fetched_again_by_the_same_connection(left: int) -> None:
    leader = Script(answer(batch(0, 2), batch(2), batch(3, 4)[:left], end=7), answer(batch(3, 4), end=7))
    events = await read(leader)

    assert [0, 2, 3] == names(events)
    assert [0, 3] == [fetch.topics[0].partitions[0].fetch_offset for fetch in leader.fetches]
    assert 1 == len(leader.connections)


def elsewhere(ports: list[Endpoint]) -> Message:
    """The second controller leads epoch 7."""
    return answer(
        error=ErrorCode.FENCED_LEADER_EPOCH,
        current_leader=Partition.LeaderIdAndEpoch(2, 7),
        endpoints=(FetchResponse.NodeEndpoint(2, *ports[1]),),
    )


elsewhere.wants_ports = True  # type: ignore[attr-defined]  # `listening` calls it with them


async def test_it_goes_where_the_leader_is_said_to_be() -> None:
    leader = Script(answer(batch(0, epoch=7), end=1))
    events = await read(Script(elsewhere), leader)

    assert [0] == names(events)
    assert leader.fetches[0].topics[0].partitions[0].current_leader_epoch == 7


async def test_a_deposed_leader_that_names_itself_is_left() -> None:
    """In an epoch that is over: a reader that has heard of the next one would not come away from it."""
    undecided = answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=Partition.LeaderIdAndEpoch(-1, 8))
    first, deposed = Script(undecided, answer(batch(0, epoch=8), end=1)), Script(elsewhere)
    async with listening(first, deposed) as endpoints:
        observer = Observer(endpoints, ClientConfig(api_timeout_ms=10_000))
        found = [event async for event in observer.events()]

    assert 1 == len(found)
    assert (2, 1) == (len(first.fetches), len(deposed.fetches))
    assert endpoints[0] == observer.leader_at


async def test_a_checkpoint_comes_in_pieces_and_the_log_goes_on_after_it() -> None:
    checkpoint = batch(0, 5) + batch(5, 5)
    leader = Script(
        answer(end=42, snapshot_id=Partition.SnapshotId(40, 3)),
        answer(batch(40, 2, epoch=4), end=42),
        checkpoint=checkpoint,
    )
    events = await read(leader)

    assert [OffsetAndEpoch(epoch=3, offset=40), 40] == names(events)
    assert isinstance(events[0], Checkpoint)
    assert events[0].data == checkpoint
    partition = leader.fetches[1].topics[0].partitions[0]
    assert (40, 3) == (partition.fetch_offset, partition.last_fetched_epoch)


async def test_what_was_not_committed_is_dropped_where_a_new_leader_has_other_records() -> None:
    leader = Script(
        answer(batch(0, 2), batch(2, 2), end=-1),
        answer(end=-1, diverging_epoch=Partition.EpochEndOffset(1, 2)),
        answer(batch(2, 3, epoch=2), end=5),
    )
    events = await read(leader)

    assert [(0, 1), (2, 2)] == [(event.header.base_offset, event.header.epoch) for event in events]
    partition = leader.fetches[2].topics[0].partitions[0]
    assert (2, 1) == (partition.fetch_offset, partition.last_fetched_epoch)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (answer(batch(1), end=2), "a batch at offset 1 came, where 0 follows"),
        (answer(batch(0)[:-1] + b"\1", end=1), "has checksum"),
        (answer(batch(0)[:-1], end=1), "byte 0"),
        (FetchResponse(), "the answer to Fetch has 0 partitions; one was asked for"),
        (answer(end=1, diverging_epoch=Partition.EpochEndOffset(0, 0)), "below what is committed"),
        (answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER), "NOT_LEADER_OR_FOLLOWER"),
        (answer(whole=ErrorCode.BROKER_NOT_AVAILABLE), "BROKER_NOT_AVAILABLE: Fetch"),
        (answer(end=9, snapshot_id=Partition.SnapshotId(9, 1)), "checkpoint 9-1 has no bytes"),
    ],
)
async def test_an_answer_that_cannot_be_is_told_when_patience_is_over(said: Message, says: str) -> None:
    leader = Script(said)
    with pytest.raises(TimeoutError, match=r"nothing was read for 300 ms \(default.api.timeout.ms\); last: ") as end:
        await read(leader)

    assert says in str(end.value)


async def test_after_an_answer_that_cannot_be_it_asks_again() -> None:
    leader = Script(answer(batch(1), end=2), FetchResponse(), answer(batch(0), end=1))

    assert [0] == names(await read(leader, config=ClientConfig()))
    assert len(leader.fetches) == 3


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, f"Fetch: it is of another cluster than {CLUSTER_ID}"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Fetch requires CLUSTER_ACTION on the cluster"),
    ],
)
async def test_a_refusal_that_no_try_heals_is_told_at_once(code: ErrorCode, says: str) -> None:
    leader = Script(answer(whole=code))
    with pytest.raises(ApiError) as refusal:
        await read(leader)

    assert refusal.value.code is code
    assert re.fullmatch(rf"127\.0\.0\.1:\d+: {says}", refusal.value.message)
    assert len(leader.fetches) == 1


async def test_it_tells_the_high_watermark_that_it_knows_so_that_a_higher_one_is_news() -> None:
    """KIP-1166: else it would hear of the last commit only with the next record, or when its wait is over."""
    leader = Script(answer(batch(0), batch(1), end=1), answer(end=2), answer(end=2))
    async with listening(leader) as endpoints, aclosing(Observer(endpoints, IMPATIENT).answers()) as answers:
        found = [await anext(answers) for _ in range(3)]
    told = [fetch.topics[0].partitions[0].high_watermark for fetch in leader.fetches[:3]]

    assert [-1, 1, 2] == told
    assert [1, 1, 0] == [len(each) for each in found if isinstance(each, list)]


async def test_a_leader_that_holds_no_fetch_is_not_asked_again_at_once() -> None:
    leader = Script(answer(end=5))
    with pytest.raises(TimeoutError):
        await read(leader)

    assert 2 <= len(leader.fetches) <= 2 + IMPATIENT.api_timeout_ms / (RETRY_S * 1_000)


async def test_a_cluster_that_is_known_is_not_asked_who_it_is() -> None:
    """That takes ALTER on the cluster, and to read only CLUSTER_ACTION."""
    leader = Script(answer(batch(0), end=1))
    async with listening(leader, served={key: SERVED[key] for key in (API_VERSIONS, FETCH)}) as endpoints:
        observer = Observer(endpoints, IMPATIENT, cluster_id=CLUSTER_ID)
        events = [event async for event in observer.events()]

    assert [0] == names(events)
    assert leader.fetches[0].cluster_id == CLUSTER_ID


async def test_a_controller_that_has_not_replayed_its_log_is_asked_again() -> None:
    """4.3.1 and 4.4.0 then take their metadata.version for the lowest, in which controllers answer no client."""

    why = "Direct-to-controller communication is not supported with the current MetadataVersion."
    refusals = [DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=why)] * 2

    class Starting(Script):
        async def __call__(self, request: Request, client: ConnectedClient) -> Message:
            if isinstance(request.message, DescribeClusterRequest) and refusals:
                return refusals.pop()
            return await super().__call__(request, client)

    assert [0] == names(await read(Starting(answer(batch(0), end=1)), config=ClientConfig()))


async def test_nobody_there() -> None:
    observer = Observer([(LOOPBACK, 1)], IMPATIENT)
    with pytest.raises(TimeoutError, match=r"last: 127.0.0.1:1: "):
        assert [event async for event in observer.events()] == []
