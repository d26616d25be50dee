"""A request of very many items is answered in turns of the loop, for every caller, and whether any of them is there.

What one turn does is counted in calls of functions: not by a clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from kraft import Message
from kraft.api.delete_records import DeleteRecordsRequest
from kraft.api.describe_producers import DescribeProducersRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.fetch import FetchRequest
from kraft.api.list_offsets import ListOffsetsRequest
from kraft.api.metadata import MetadataRequest
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kraft.api.produce import ProduceRequest, ProduceResponse
from kraft.api.write_txn_markers import WriteTxnMarkersRequest
from kraft.protocol.request_header import RequestHeader
from quorate.errors import ErrorCode
from quorate.listeners.security import security_of
from quorate.metadata.acls import Acls
from quorate.network.client import Connection, connect
from quorate.network.fair_turns import LARGE_AT_ONCE
from quorate.network.listening import ConnectedClient
from quorate.protocol import ClientSettings, Request, ServerSettings
from quorate.protocol.apis import api_of
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.telemetry.tracing import OFF
from quorate.timeline import SnapshotRegistry
from quorate.wire.items import ITEMS_PER_STEP
from services.broker.callers import Caller, Callers
from services.broker.cluster import Cluster
from services.broker.descriptions import describe_producers
from services.broker.forwarding import Forwarding
from services.broker.logins import BrokerLogins
from services.broker.peers import Peers
from services.broker.reads import Reads
from services.broker.tracing import ProduceTraces
from services.broker.wire import Asking, Wire
from tests.partition_log.batches import produced
from tests.services.broker import test_partitions
from tests.services.broker.calling import LISTENER, caller, codes_in, user_with
from tests.services.broker.test_listeners import HOST, config
from tests.services.broker.test_partitions import ME, OTHER
from tests.services.broker.test_rights import Broker
from tests.services.broker.test_transactions import Leader, leading
from tests.services.counted_calls import calls_in_a_turn

disks = test_partitions.disks
MANY: Final = 4 * ITEMS_PER_STEP
CALLS_MAX: Final = 11 * ITEMS_PER_STEP
"""The calls of one turn of the loop. A function that is done at once to each item of `MANY` has more, if it has three
of them."""
NAMES: Final = tuple(f"t{number}" for number in range(MANY))
assert CALLS_MAX < 3 * MANY

Ask = Callable[[Caller], Awaitable[Message | None]]


def _fetch(*, epoch: int) -> FetchRequest:
    of = FetchRequest.FetchTopic
    asked = (of.FetchPartition(partition=0, partition_max_bytes=1),)
    topics = tuple(of(topic=name, partitions=asked) for name in NAMES)
    return FetchRequest(max_wait_ms=0, session_epoch=epoch, topics=topics)


def _asks(broker: Broker, reads: Reads) -> Mapping[str, Ask]:
    """The largest request of each API, each item of which is something else."""
    data, offsets = ProduceRequest.TopicProduceData, ListOffsetsRequest.ListOffsetsTopic
    epochs, deleted = OffsetForLeaderEpochRequest.OffsetForLeaderTopic, DeleteRecordsRequest.DeleteRecordsTopic
    marker, topic = WriteTxnMarkersRequest.WritableTxnMarker, DescribeTopicPartitionsRequest.TopicRequest
    written = tuple(data(name, partition_data=(data.PartitionProduceData(0, b""),)) for name in NAMES)
    named = tuple(MetadataRequest.MetadataRequestTopic(name=name) for name in NAMES)
    listed = tuple(offsets(name, (offsets.ListOffsetsPartition(0, -1, -1),)) for name in NAMES)
    ends = tuple(epochs(name, (epochs.OffsetForLeaderPartition(0, -1, 0),)) for name in NAMES)
    gone = tuple(deleted(name, (deleted.DeleteRecordsPartition(0, 0),)) for name in NAMES)
    writers = tuple(DescribeProducersRequest.TopicRequest(name, (0,)) for name in NAMES)
    marked = tuple(marker.WritableTxnMarkerTopic(name, (0,)) for name in NAMES)
    markers = WriteTxnMarkersRequest((marker(7, 0, True, marked, 0),))
    described = DescribeTopicPartitionsRequest(topics=tuple(map(topic, NAMES)))
    return {
        "Produce": lambda who: broker.produce.answer(ProduceRequest(None, 1, 1_000, written), 12, who),
        "Fetch": lambda who: broker.fetch.answer(_fetch(epoch=-1), 12, who),
        "Fetch in a session": lambda who: broker.fetch.answer(_fetch(epoch=0), 12, who),
        "ListOffsets": lambda who: in_turns(broker.offsets.list(ListOffsetsRequest(topics=listed), 9, who)),
        "OffsetForLeaderEpoch": lambda who: in_turns(
            broker.offsets.of_epochs(OffsetForLeaderEpochRequest(-1, ends), who)
        ),
        "Metadata": lambda who: in_turns(broker.cluster.metadata(MetadataRequest(topics=named), 12, who)),
        "DeleteRecords": lambda who: broker.deletion.answer(DeleteRecordsRequest(gone, 1), who),
        "DescribeProducers": lambda who: in_turns(
            describe_producers(DescribeProducersRequest(writers), broker.cluster, who)
        ),
        "WriteTxnMarkers": lambda who: broker.markers.answer(markers, who),
        "DescribeTopicPartitions": lambda who: reads.answer(_request(described), who),
    }


def _request(message: Message) -> Request:
    api = api_of(type(message))
    return Request(api=api, header=RequestHeader(api.key, api.versions[-1], 1, "test"), message=message)


@pytest.mark.parametrize("who", [user_with(), caller()], ids=["nobody", "everybody"])
async def test_no_turn_works_on_all_items_of_a_request(disks: list[Path], who: Caller) -> None:
    async with leading(disks) as leader:
        broker = Broker(leader, leader.scene)
        most: dict[str, int] = {}
        for name, ask in _asks(broker, Reads(ME, leader.scene.replica, broker.cluster, SystemClock())).items():
            with calls_in_a_turn() as calls:
                answer: Any = await ask(who)
            refused = [each for each in codes_in(msgspec.to_builtins(answer)) if each]
            assert MANY == len(refused), name
            most[name] = calls[0]

        assert {} == {name: count for name, count in most.items() if count > CALLS_MAX}


async def test_a_connections_requests_are_appended_in_their_order(disks: list[Path]) -> None:
    """The first is of many partitions, and is admitted in turns of the loop; the producer's sequences go on."""
    data = ProduceRequest.TopicProduceData
    client = ConnectedClient(host="10.0.0.1", port=4711, software=("", ""), is_tls=False, listener="PLAINTEXT")
    callers = Callers(None, lambda: Acls(SnapshotRegistry()))

    def asked(sequence: int, *others: str) -> ProduceRequest:
        batch = data.PartitionProduceData(0, produced(producer=(7, 0, sequence)))
        topics = [data(name, partition_data=(data.PartitionProduceData(0, b""),)) for name in others]
        return ProduceRequest(None, 1, 1_000, (*topics, data("orders", partition_data=(batch,))))

    async with leading(disks) as leader:
        produce = Broker(leader, leader.scene).produce
        requests = asked(0, *NAMES), asked(1)
        answers = await asyncio.gather(
            *(produce.answer(each, 12, callers.of(_request(each), client)) for each in requests)
        )

    assert [0, 1] == [each.responses[-1].partition_responses[0].base_offset for each in answers if each is not None]


async def test_offsets_that_are_refused_cost_no_search(disks: list[Path]) -> None:
    """An offset by time has a file read; 49,000 that were refused took 4,800 turns beside all other work."""
    of = ListOffsetsRequest.ListOffsetsTopic
    asked = ListOffsetsRequest(topics=tuple(of(name, (of.ListOffsetsPartition(0, -1, 0),)) for name in NAMES))
    async with leading(disks) as leader:
        steps = Broker(leader, leader.scene).offsets.list(asked, 9, user_with())

        assert len(list(steps)) <= MANY * 12 // ITEMS_PER_STEP


@asynccontextmanager
async def wire_of(leader: Leader) -> AsyncIterator[Callable[[], Awaitable[Connection]]]:
    """A broker's listener; yields what connects as a client whose id is so long that each of its requests is large."""
    scene, none = leader.scene, SimpleNamespace()
    cluster = Cluster(ME, "ours", LISTENER, lambda: scene.replica.state, scene.replicas.table)
    logins = BrokerLogins(scene.replica, None, SystemClock())
    asking = Asking(none, Callers(None, lambda: scene.replica.state.acls), logins, Peers())  # type: ignore[arg-type]
    traces = ProduceTraces(OFF)
    wire = Wire(scene.replica, scene.replicas, cluster, scene.directories, traces, Forwarding(None), asking)
    wire.begin(none, none)  # type: ignore[arg-type]  # nobody asks for ids, or moves replicas
    settings = ClientSettings(client_id="x" * ServerSettings().large_bytes)
    given = config({})
    async with wire.serving(given, security_of(given)) as servers:
        yield partial(connect, HOST, servers[LISTENER].port, settings=settings)
    await wire.close()


async def test_large_requests_that_wait_hold_up_no_other(disks: list[Path]) -> None:
    """Readers wait for records, writers for a follower, whose fetch is large, too."""
    part = FetchRequest.FetchTopic.FetchPartition(1, fetch_offset=0, partition_max_bytes=1)
    idle = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, topics=(FetchRequest.FetchTopic("orders", partitions=(part,)),)
    )
    behind = msgspec.structs.replace(part, partition=0, fetch_offset=LARGE_AT_ONCE)
    follower = FetchRequest(replica_id=OTHER, topics=(FetchRequest.FetchTopic("orders", partitions=(behind,)),))
    data = ProduceRequest.TopicProduceData
    written = (data("orders", partition_data=(data.PartitionProduceData(0, produced()),)),)
    write = ProduceRequest(None, -1, 60_000, written)
    async with asyncio.timeout(30), leading(disks) as leader, wire_of(leader) as connected, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await connected()) for _ in range(3 * LARGE_AT_ONCE)]
        readers, writers = clients[:LARGE_AT_ONCE], clients[LARGE_AT_ONCE:-LARGE_AT_ONCE]
        reading = [asyncio.ensure_future(each.ask(idle, version=12)) for each in readers]
        writing = [asyncio.ensure_future(each.ask_for(ProduceResponse, write, version=12)) for each in writers]
        await leader.has_written(LARGE_AT_ONCE, 0)
        await clients[-1].ask(follower, version=12)
        answers = await asyncio.gather(*writing)
        answered = [each.done() for each in reading]
        for each in reading:
            each.cancel()

    assert [ErrorCode.NONE] * LARGE_AT_ONCE == [each.responses[0].partition_responses[0].error_code for each in answers]
    assert [False] * LARGE_AT_ONCE == answered
