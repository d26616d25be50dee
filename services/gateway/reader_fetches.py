"""Answers the Fetches of brokers and observers from the end of the log that this gateway has itself.

A cluster's brokers all ask for the same few batches. The gateway follows the committed log of the quorum node beside it
by one stream, and answers from it whoever asks for what follows there, in the epoch in which that node leads. The node
answers the rest, and sees at least one Fetch a second of each reader: so DescribeQuorum shows how far it is, and a
reader of a node that is gone or leads no more is told so as before.

What is committed is the same at each leader, and is not truncated (Raft's Leader Completeness; KIP-595). A voter's
fetches acknowledge records and bring what is not committed yet: they go on to the node. One that is being added is
known as a voter here once that is committed; until then its fetches for what is not committed wait BEHIND_S at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec.structs import replace

from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import Corrupt
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC_ID, NOBODY, Epoch, NodeId, Offset
from quorate.runtime.log_reader import CommittedBatch, LogReader
from quorate.runtime.logs import logger
from quorate.wire.batch import peek_header
from services.gateway.log_tail import LogTail
from services.gateway.metrics import FETCHES

__all__ = ["ReaderFetches"]

log = logger(__name__)

TAIL_BYTES_MAX: Final = 16 << 20
READERS_MAX: Final = 20_000
"""Readers that are known at once; others are answered by the quorum node."""
NODE_EVERY_S: Final = 0.5
"""The node sees a reader's fetch that comes so long (s) after its last answer to that reader."""
HELD_MAX_S: Final = 0.5
"""The longest wait (s) for news, as Kafka's brokers ask for, whatever a reader asks for. So the node sees it again, and
knows its offset as it was a second ago or later."""
NEWS_WAIT_S: Final = 50e-6
"""The wait (s) for each reader that is known, before one that has all but the newest batches gets these: so answers to
a crowd take a share of the processor, and carry what is committed meanwhile."""
NEWS_WAIT_MAX_S: Final = 0.1
BEHIND_S: Final = 0.05
"""How long (s) a reader waits for this gateway to have what it has, or what it was told; then the node answers it."""
BYTES_MAX: Final = 8 << 20
"""The largest answer, whatever a reader asks for, but for its first batch."""
BEGIN_AGAIN_S: Final = 1.0
"""The pause before the log is followed from another place, if it cannot be followed from one."""
FORGOTTEN_S: Final = 60.0
"""A reader that has not asked for so long is forgotten; without a reader the log is followed no more."""

Partition = FetchRequest.FetchTopic.FetchPartition
Answered = FetchResponse.FetchableTopicResponse.PartitionData
ReaderKey = tuple[NodeId, bytes, str]
"""A reader's node id and directory id, and the listener, which decides on the addresses in an answer."""


class Open(Protocol):
    """Opens a reader of the log of the quorum node beside this gateway."""

    def __call__(self, *, start: tuple[Offset, Epoch], on_change: Callable[[], None]) -> LogReader:
        """`start` is an offset and the epoch of the record before it."""


@dataclass(slots=True)
class _Reader:
    answer: FetchResponse
    """The node's last answer to it, in which records and high watermark are put in place of the old."""
    epoch: Epoch
    """The leader epoch in it."""
    high_watermark: Offset
    """What it was told last, by the node or from here. A Kafka reader ends with an error if it is told less."""
    seen_at_s: float
    """When the node saw its fetch: when that was passed on, and then when it was answered."""
    asked_at_s: float


class ReaderFetches:
    """`answer` before a fetch is passed on, and `passed` after it; `run` follows the log meanwhile."""

    def __init__(self, open_log: Open, *, node_id: NodeId, bytes_max: int = TAIL_BYTES_MAX) -> None:
        self._open = open_log
        self._node_id = node_id
        self._bytes_max = bytes_max
        self._readers: dict[ReaderKey, _Reader] = {}
        self._wanted: asyncio.Future[tuple[Offset, Epoch]] | None = None
        self._reader: LogReader | None = None
        self._following: asyncio.Future[None] | None = None
        self._tail = LogTail(0, 0, bytes_max=bytes_max)
        self._held: set[asyncio.Future[None]] = set()
        self._is_waking = False

    async def answer(self, request: FetchRequest, listener: str) -> FetchResponse | None:
        """Returns the answer, at once or when something is committed, at most `max_wait_ms` or HELD_MAX_S later.

        None if the quorum node has to answer.
        """
        partition = _only(request)
        if partition is None:
            return None
        key = (request.replica_state.replica_id, partition.replica_directory_id, listener)
        reader, now_s = self._readers.get(key), asyncio.get_running_loop().time()
        if reader is None:
            return None
        if now_s >= reader.seen_at_s + NODE_EVERY_S:
            reader.seen_at_s = now_s  # others without an id, which are one reader here, need not follow it there
            return None
        if not self._may_serve(request, partition, reader):
            return None
        reader.asked_at_s = now_s
        ends_at_s, bytes_max = now_s + min(HELD_MAX_S, request.max_wait_ms / 1000), min(BYTES_MAX, request.max_bytes)
        await self._catch_up(partition, reader, ends_at_s=min(ends_at_s, now_s + BEHIND_S))
        if self._is_behind(partition, reader):
            return None
        await self._news(partition, bytes_max, ends_at_s=ends_at_s)
        if not self._may_serve(request, partition, reader) or self._is_behind(partition, reader):
            return None
        reader.high_watermark = self._tail.end
        FETCHES.add(1)
        records = self._tail.records(partition.fetch_offset, bytes_max)
        return _with(reader.answer, records, self._tail.end)

    def passed(self, request: FetchRequest, listener: str, response: FetchResponse) -> None:
        """Notes the node's answer. The log is followed from where the first one brings its reader."""
        partition, answered = _only(request), _sound(response)
        if partition is None or self._is_voter(request.replica_state.replica_id):
            return
        key = (request.replica_state.replica_id, partition.replica_directory_id, listener)
        if answered is None or (key not in self._readers and len(self._readers) >= READERS_MAX):
            self._readers.pop(key, None)
            return
        now_s = asyncio.get_running_loop().time()
        before = self._readers.get(key)  # several readers without an id are one here, and the highest counts
        told = max(answered.high_watermark, 0 if before is None else before.high_watermark)
        kept, epoch = _with(response, b"", answered.high_watermark), answered.current_leader.leader_epoch
        self._readers[key] = _Reader(kept, epoch, told, now_s, now_s)
        if self._wanted is None or self._wanted.done() or answered.current_leader.leader_id != self._node_id:
            return
        if (start := _start(partition, answered)) is not None:
            self._wanted.set_result(start)

    async def run(self) -> None:
        """Follows the log from where a reader is, as long as there are readers, until cancelled."""
        while True:
            self._wanted = asyncio.get_running_loop().create_future()
            start = await self._wanted
            try:
                await self._follow(*start)
            finally:
                self._reader = None
                self._wake()
            await asyncio.sleep(BEGIN_AGAIN_S)

    async def _follow(self, start: Offset, epoch: Epoch) -> None:
        """Returns when nobody reads any more, or when the log cannot be followed."""
        self._tail = tail = LogTail(start, epoch, bytes_max=self._bytes_max)
        self._following = following = asyncio.ensure_future(self._take(tail))
        try:
            while not following.done() and self._forget_readers():
                await asyncio.wait([following], timeout=FORGOTTEN_S / 4)
        finally:
            following.cancel()
            await asyncio.wait([following])
        if not following.cancelled():
            following.result()  # raises what only a fault of our own can be

    async def _take(self, tail: LogTail) -> None:
        """Reads batches, until a checkpoint comes in their place: then what is here may lie far behind."""
        while True:
            self._reader = reader = self._open(start=(tail.end, tail.end_epoch), on_change=self._hear)
            try:
                async for event in reader.events():
                    if not isinstance(event, CommittedBatch):
                        return
                    tail.add(event.header, event.data)
                    self._wake_soon()
                    if event.header.is_control:
                        break  # it may name other voters, whom FindQuorum tells at a begin
            finally:
                await reader.close()

    def _hear(self) -> None:
        """Another leads. If nobody does, or the node gives no answer that fits, the log is not followed from here."""
        self._wake()
        if self._reader is not None and self._reader.leader_id == NOBODY and self._following is not None:
            self._following.cancel()

    def _may_serve(self, request: FetchRequest, partition: Partition, known: _Reader) -> bool:
        """Whether the node leads in the reader's epoch, as when it answered it, and the reader's log fits the tail.

        The other rules are the node's: for what breaks one, its answer is the right one. A reader that is ahead has
        records of this leader that are not committed: they are compared when the tail gets there.
        """
        reader, epoch, offset = self._reader, partition.current_leader_epoch, partition.fetch_offset
        return (
            reader is not None
            and self._leads(epoch)
            and known.epoch == epoch
            and request.cluster_id in (None, reader.cluster_id)
            and not self._is_voter(request.replica_state.replica_id)
            and (offset > self._tail.end or self._tail.epoch_before(offset) == partition.last_fetched_epoch)
        )

    def _leads(self, epoch: Epoch) -> bool:
        reader = self._reader
        return reader is not None and (reader.leader_id, reader.leader_epoch) == (self._node_id, epoch)

    def _is_voter(self, replica_id: NodeId) -> bool:
        voters = None if self._reader is None else self._reader.voters
        return voters is not None and replica_id in voters

    def _is_behind(self, partition: Partition, known: _Reader) -> bool:
        """Whether the reader has or knows of what is not here: it is not committed, or has not come yet."""
        return self._tail.end < max(partition.fetch_offset, known.high_watermark)

    async def _catch_up(self, partition: Partition, known: _Reader, *, ends_at_s: float) -> None:
        now_s = asyncio.get_running_loop().time
        epoch = partition.current_leader_epoch
        while self._is_behind(partition, known) and self._leads(epoch) and now_s() < ends_at_s:
            await self._changed(ends_at_s - now_s())

    async def _news(self, partition: Partition, bytes_max: int, *, ends_at_s: float) -> None:
        """Waits until something is committed that the reader has not or does not know of, or until another leads.

        Who is behind by more than an answer can carry waits for nothing.
        """
        now_s = asyncio.get_running_loop().time
        if self._has_news(partition):
            if self._tail.size_from(partition.fetch_offset) <= bytes_max:
                await self._changed(min(ends_at_s - now_s(), self._news_wait_s))
            return
        while self._leads(partition.current_leader_epoch) and not self._has_news(partition) and now_s() < ends_at_s:
            await self._changed(ends_at_s - now_s())

    def _has_news(self, partition: Partition) -> bool:
        return self._tail.end > min(partition.fetch_offset, partition.high_watermark)

    @property
    def _news_wait_s(self) -> float:
        return min(NEWS_WAIT_MAX_S, NEWS_WAIT_S * len(self._readers))

    async def _changed(self, wait_s: float) -> None:
        """Returns when what is committed or who leads has changed, or after `wait_s`."""
        if wait_s <= 0:
            return
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        timer = loop.call_later(wait_s, _wake, woken)
        self._held.add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            self._held.discard(woken)

    def _wake_soon(self) -> None:
        """Has those that wait look again, once there may be more for them."""
        if self._held and not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_later(self._news_wait_s, self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for woken in self._held:
            _wake(woken)

    def _forget_readers(self) -> bool:
        """Forgets who asks no more. Returns whether anybody is left."""
        oldest_s = asyncio.get_running_loop().time() - FORGOTTEN_S
        for key in [key for key, reader in self._readers.items() if reader.asked_at_s < oldest_s]:
            del self._readers[key]
        return bool(self._readers)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _only(request: FetchRequest) -> Partition | None:
    """Returns the partition of the metadata log, if the request is for it alone, by its id."""
    topics = request.topics
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition == METADATA_PARTITION else None


def _sound(response: FetchResponse) -> Answered | None:
    """Returns the partition of an answer that has no error and sends the reader nowhere else; None for any other."""
    if response.error_code or len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return None
    answered = response.responses[0].partitions[0]
    goes_on = answered.diverging_epoch.epoch < 0 and answered.snapshot_id.end_offset < 0
    is_led = answered.current_leader.leader_id != NOBODY and answered.high_watermark >= 0
    return answered if not answered.error_code and goes_on and is_led else None


def _start(asked: Partition, answered: Answered) -> tuple[Offset, Epoch] | None:
    """Returns an offset up to which all is committed, and the epoch of the record before it; None if none is sure.

    Both are the node's word: a reader may name an offset within a batch, or an epoch that the log has only later. Where
    there are no records the reader is at the log's end, and the node has compared its epoch with that of the last one.
    """
    offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
    if answered.records:
        try:
            first = peek_header(answered.records)
        except Corrupt:
            return None
        offset, epoch = first.next_offset, first.epoch
    return (offset, epoch) if offset <= answered.high_watermark else None


def _with(response: FetchResponse, records: bytes, high_watermark: Offset) -> FetchResponse:
    (topic,) = response.responses
    (partition,) = topic.partitions
    answered = replace(partition, records=records, high_watermark=high_watermark)
    return replace(response, responses=(replace(topic, partitions=(answered,)),))
