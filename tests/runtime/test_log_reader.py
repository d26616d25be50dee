"""An observer's fetch loop against a real quorum node: what is committed, in order, from the log or from a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.service.quorum_pb2 import CreateSnapshotRequest, FindQuorumRequest, FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, Offset
from quorate.raft.history import History
from quorate.raft.voters import VoterSet
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import RETRY_S, CommittedBatch, Event, LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from services.quorum.cleaner import Cleaner, RetentionLimits
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from services.quorum.snapshot_upload import take_snapshot
from tests.services.controllers import NOWHERE
from tests.services.nodes import RECORD, sole_leader, write
from tests.services.scripted import WITHIN_S, listening

ONLY_THE_LATEST = RetentionLimits(retention_bytes=0, retention_ms=-1, interval_ms=60_000, delete_delay_ms=0)


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[tuple[QuorumDriver, str]]:
    """One that leads, and its address."""
    server = Server()
    async with sole_leader(directory) as driver:
        peer = PeerServicer(driver, NodeEndpoints((), (), History(VoterSet.of(1))), cluster_id="c", node_id=1)
        server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
        async with listening(server) as address:
            yield driver, address


async def read(
    servers: Sequence[str], *, until: Offset, start: tuple[Offset, Epoch] = (0, 0)
) -> tuple[list[Event], LogReader]:
    """The events of a new reader, up to an offset."""
    reader, found = LogReader(servers, open_channel, start=start), []
    async with asyncio.timeout(WITHIN_S):
        async for event in reader.events():
            found.append(event)
            if span(event)[1] >= until:
                break
    await reader.close()
    return found, reader


def span(event: Event) -> tuple[Offset, Offset]:
    """From where to where an event brings its reader."""
    return (
        (event.header.base_offset, event.header.next_offset)
        if isinstance(event, CommittedBatch)
        else (0, event.end_offset)
    )


async def test_every_batch_comes_once_and_in_order(tmp_path: Path) -> None:
    async with node(tmp_path) as (driver, address):
        ends = [await write(driver, count=count) for count in (1, 3, 2)]
        found, reader = await read([address], until=ends[-1])
        later, _ = await read([address], until=ends[-1], start=(2, 1))

    assert [(0, 1), (1, 2), (2, 5), (5, 7)] == list(map(span, found))
    assert found[2:] == later
    assert (7, 7) == (reader.delivered, reader.high_watermark)


async def test_what_is_not_committed_is_kept_back(tmp_path: Path) -> None:
    async with node(tmp_path) as (driver, address):
        both, _ = await read([address], until=await write(driver))
    records = b"".join(event.data for event in both)
    server = Server()
    sent = fetched(Partition(records=records, high_watermark=1, current_leader=OF_NODE_7))
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, Nonsense(sent, None, OF_CLUSTER_C))
    async with listening(server) as address:
        found, reader = await read([address], until=1)

    assert [(0, 1)] == list(map(span, found))
    assert (1, 7) == (reader.delivered, reader.leader_id)


async def take(driver: QuorumDriver, end: Offset) -> None:
    async def pieces() -> AsyncIterator[CreateSnapshotRequest]:
        yield CreateSnapshotRequest(end_offset=end, epoch=1, values=[RECORD])
        yield CreateSnapshotRequest()

    await take_snapshot(driver, pieces())


async def test_what_is_not_in_the_log_any_more_comes_as_a_snapshot(tmp_path: Path) -> None:
    async with node(tmp_path) as (driver, address):
        end, last = await write_around_a_snapshot(driver)
        found, reader = await read([address], until=last)
        replica = Replica(LogReader([address], open_channel), SystemClock(), OFF)
        following = asyncio.ensure_future(replica.run())
        async with asyncio.timeout(WITHIN_S):
            await replica.caught_up()
        had = replica.applied
        following.cancel()

    assert [(0, end), (end, last)] == list(map(span, found))
    assert (last, last) == (reader.delivered, reader.high_watermark)
    assert last == had  # who has the snapshot alone may not decide who may call


async def write_around_a_snapshot(driver: QuorumDriver) -> tuple[Offset, Offset]:
    """Returns the end of a snapshot, before which the log has nothing any more, and that of the log after it."""
    for _ in range(2):
        end = await write(driver, count=3)
        await take(driver, end)
    last = await write(driver, count=2)
    Cleaner(driver, ONLY_THE_LATEST).clean()
    assert driver.core.log.start == end
    return end, last


async def test_a_server_that_is_not_there_is_left_for_the_next(tmp_path: Path) -> None:
    async with node(tmp_path) as (driver, address):
        end = await write(driver)
        found, _ = await read([NOWHERE, address], until=end)

    assert [(0, 1), (1, 2)] == list(map(span, found))


Partition = FetchResponse.FetchableTopicResponse.PartitionData
Topic = FetchResponse.FetchableTopicResponse
NO_MESSAGE: Final = b"\xff"
OF_CLUSTER_C: Final = FindQuorumResponse(cluster_id="c")
Piece = FetchSnapshotResponse.TopicSnapshot.PartitionSnapshot
LATER: Final = 9_999
"""An error code that is not known."""
OF_NODE_7: Final = Partition.LeaderIdAndEpoch(leader_id=7, leader_epoch=1)
SNAPSHOT: Final = Partition(snapshot_id=Partition.SnapshotId(end_offset=5, epoch=1), current_leader=OF_NODE_7)


def fetched(*partitions: Partition, **other: Any) -> FetchResponse:
    return FetchResponse(responses=[Topic(partitions=partitions)], **other)


def piece(**fields: Any) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot(partitions=[Piece(**fields)])])


class Nonsense(QuorumServicer):
    """Answers every fetch, and every fetch of a snapshot, with the same."""

    def __init__(self, fetch: object, snapshot: object, found: object) -> None:
        self._fetch = fetch
        self._snapshot = snapshot
        self._found = found
        self.fetches = 0

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> Any:
        return self._found

    async def FetchStream(self, request_iterator: AsyncIterator[FetchRequest], context: Any) -> Any:
        async for _ in request_iterator:
            self.fetches += 1
            yield self._fetch

    async def FetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> Any:
        return self._snapshot


@pytest.mark.parametrize(
    ("fetch", "snapshot"),
    [
        pytest.param(NO_MESSAGE, None, id="no message"),
        pytest.param(fetched(SNAPSHOT), NO_MESSAGE, id="a snapshot that is no message"),
        pytest.param(FetchResponse(), None, id="no topic"),
        pytest.param(fetched(), None, id="no partition"),
        pytest.param(fetched(Partition(), Partition()), None, id="two partitions"),
        pytest.param(fetched(Partition(error_code=LATER)), None, id="an unknown error"),  # type: ignore[arg-type]
        pytest.param(FetchResponse(error_code=LATER), None, id="an unknown error of all"),  # type: ignore[arg-type]
        pytest.param(fetched(Partition(records=b"\xff" * 70)), None, id="no batch"),
        pytest.param(fetched(Partition(records=b"\0" * 7)), None, id="a cut batch"),
        pytest.param(
            fetched(Partition(diverging_epoch=Partition.EpochEndOffset(epoch=0, end_offset=9))), None, id="diverging"
        ),
        pytest.param(fetched(SNAPSHOT), FetchSnapshotResponse(), id="a snapshot of no topic"),
        pytest.param(fetched(SNAPSHOT), piece(error_code=LATER), id="a snapshot with an unknown error"),
        pytest.param(fetched(SNAPSHOT), piece(size=9), id="a snapshot that goes on with nothing"),
        pytest.param(fetched(SNAPSHOT), piece(size=0), id="a snapshot of no bytes"),
        pytest.param(
            fetched(SNAPSHOT), piece(size=9, position=4, unaligned_records=b"aaaa"), id="a snapshot from its middle"
        ),
        pytest.param(fetched(SNAPSHOT), piece(size=4, unaligned_records=b"\xff" * 70), id="a snapshot of no batches"),
    ],
)
async def test_a_node_that_answers_with_nonsense_is_left_for_the_next(
    tmp_path: Path, fetch: object, snapshot: object
) -> None:
    await check_left_for_the_next(tmp_path, Nonsense(fetch, snapshot or FetchSnapshotResponse(), OF_CLUSTER_C))


async def test_a_node_that_does_not_say_who_leads_is_left_for_the_next(tmp_path: Path) -> None:
    await check_left_for_the_next(tmp_path, Nonsense(NO_MESSAGE, NO_MESSAGE, NO_MESSAGE))


async def check_left_for_the_next(tmp_path: Path, nonsense: Nonsense) -> None:
    server = Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, nonsense)
    async with node(tmp_path) as (driver, address), listening(server) as theirs:
        end = await write(driver)
        found, _ = await read([theirs, address], until=end)

    assert [(0, 1), (1, 2)] == list(map(span, found))
    assert nonsense.fetches <= 2  # each is asked in turn, and the other first says in which epoch it leads


async def test_a_deposed_leader_that_names_itself_is_left() -> None:
    """In an epoch that is over: a reader that has heard of the next one would not come away from it."""
    undecided, itself = (
        Partition.LeaderIdAndEpoch(leader_id=id, leader_epoch=epoch) for id, epoch in ((-1, 5), (7, 4))
    )
    voter = Nonsense(
        fetched(Partition(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=undecided)),  # type: ignore[arg-type]
        None,
        OF_CLUSTER_C,
    )
    deposed = Nonsense(
        fetched(Partition(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH, current_leader=itself)),  # type: ignore[arg-type]
        None,
        OF_CLUSTER_C,
    )
    async with AsyncExitStack() as stack:
        addresses = []
        for each in (voter, deposed):
            server = Server()
            server.add("kraft.service.Quorum", add_QuorumServicer_to_server, each)
            addresses.append(await stack.enter_async_context(listening(server)))
        reading = asyncio.ensure_future(read(addresses, until=1))
        async with asyncio.timeout(WITHIN_S):
            while voter.fetches < 2 and deposed.fetches < 3:  # noqa: ASYNC110  # gRPC asks, and tells of no event
                await asyncio.sleep(RETRY_S / 10)
        asked = voter.fetches, deposed.fetches
        reading.cancel()

    assert (2, 1) == asked


async def test_a_server_that_holds_no_fetch_is_asked_a_few_times_a_second() -> None:
    """As one that holds fetches of so many others that it has no room for this one."""
    server = Server()
    full = Nonsense(fetched(Partition(current_leader=OF_NODE_7)), FetchSnapshotResponse(), OF_CLUSTER_C)
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, full)
    async with listening(server) as address:
        began_at = time.monotonic()
        reading = asyncio.ensure_future(anext(LogReader([address], open_channel).events()))
        async with asyncio.timeout(WITHIN_S):
            while full.fetches < 5:  # noqa: ASYNC110  # what the server counts has no event
                await asyncio.sleep(0.01)
        fetches, passed_s = full.fetches, time.monotonic() - began_at
        reading.cancel()

    assert fetches <= passed_s / RETRY_S + 1


async def test_a_leader_without_an_address_for_grpc_is_read_from_a_follower(tmp_path: Path) -> None:
    """Such a leader is a Kafka controller. Here the node itself leads, but answers as a follower of one does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeerServicer, "FetchStream", led_by_a_kafka)
        async with node(tmp_path) as (driver, address):
            end = await write(driver, count=3)
            found, reader = await read([address], until=end)

    assert end == span(found[-1])[1]
    assert reader.is_led_elsewhere


async def test_a_leader_that_does_not_know_its_own_address_is_read_itself(tmp_path: Path) -> None:
    async with node(tmp_path) as (driver, address):
        found, reader = await read([address], until=await write(driver, count=3))

    assert found
    assert not reader.is_led_elsewhere


async def led_by_a_kafka(
    _: PeerServicer, requests: AsyncIterator[FetchRequest], __: object
) -> AsyncIterator[FetchResponse]:
    async for _request in requests:
        topic = FetchResponse.FetchableTopicResponse
        leader = topic.PartitionData.LeaderIdAndEpoch(leader_id=1, leader_epoch=1)
        part = topic.PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)  # type: ignore[arg-type]
        yield FetchResponse(responses=[topic(partitions=[part])])
