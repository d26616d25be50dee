"""Answers the Fetches of brokers and observers from the end of the log that this gateway has itself.

A cluster's brokers all ask for the same few batches. The gateway follows the committed log of the quorum node beside it
by one stream, and answers from it readers that ask for what follows there, in the epoch in which that node leads. The
node answers the rest. For DescribeQuorum it gets the offsets of readers that it does not see, several times a second.
If it does not take those, it sees their Fetches: so readers notice as before that a node is gone or no longer leads.

Committed records are the same at each leader, and are not truncated (Raft's Leader Completeness; KIP-595). A voter's
fetches acknowledge records and bring what is not committed yet: they go on to the node. One that is being added is
known as a voter here once that is committed; until then its fetches for what is not committed wait BEHIND_S at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.nouns import NOBODY, Epoch, NodeId, Offset
from quorate.runtime.following.log_reader import CommittedBatch, LogReader
from quorate.runtime.logging.logs import logger
from services.gateway.fetch_form import FetchForm, Served
from services.gateway.log_tail import LogTail
from services.gateway.metadata_partition import Partition, partition_of, sound, start_of
from services.gateway.metrics import FETCHES

__all__ = ["ReaderFetches"]

log = logger(__name__)

TAIL_BYTES_MAX: Final = 16 << 20
READERS_MAX: Final = 20_000
"""Readers that are known at once; others are answered by the quorum node."""
NODE_EVERY_S: Final = 0.5
"""The node sees a reader's fetch that comes so long (s) after one of which it does not know yet."""
REPORT_EVERY_S: Final = 0.2
"""The time (s) between two reports to the node of how far readers are."""
REPORTED_MAX: Final = 1_000
"""Readers in one report, which takes the node some milliseconds; further ones are in the next."""
HELD_MAX_S: Final = 0.5
"""The longest wait (s) for news, as Kafka's brokers ask for, whatever a reader asks for. So a reader asks again, and
the node knows its offset as it was a second ago or later."""
NEWS_WAIT_S: Final = 50e-6
"""The wait (s) for each reader that is known, before one that has all but the newest batches gets these: so answers to
a crowd take a share of the processor, and carry what is committed meanwhile."""
NEWS_WAIT_MAX_S: Final = 0.1
BEHIND_S: Final = 0.05
"""How long (s) a reader waits until the log here reaches its offset and high watermark; then the node answers it."""
BYTES_MAX: Final = 8 << 20
"""The largest answer, whatever a reader asks for, but for its first batch."""
BEGIN_AGAIN_S: Final = 1.0
"""The pause before the log is followed from another place, if it cannot be followed from one."""
FORGOTTEN_S: Final = 60.0
"""A reader that has not asked for so long is forgotten; without a reader the log is followed no more."""

WOKEN_PER_TURN: Final = 100
"""How many of those that wait are answered in one turn of the loop."""

ReaderKey = tuple[NodeId, bytes, str]
"""A reader's node id and directory id, and the listener, which decides on the addresses in an answer."""
Reply = Callable[[Served | None], None]
"""Takes the answer to a fetch, once; None if the quorum node has to answer."""


class Open(Protocol):
    """Opens a reader of the log of the quorum node beside this gateway."""

    def __call__(self, *, start: tuple[Offset, Epoch], on_change: Callable[[], None]) -> LogReader:
        """`start` is an offset and the epoch of the record before it."""


Report = Callable[[Epoch, Sequence[tuple[NodeId, bytes, Offset]]], Awaitable[bool]]
"""(epoch, node id, directory id and fetch offset of readers) → whether the node, which leads in it, knows them now."""


@dataclass(slots=True)
class _Reader:
    form: FetchForm
    """The node's last answer to it."""
    epoch: Epoch
    """The leader epoch in it."""
    high_watermark: Offset
    """The last that it got, from the node or from here. A Kafka reader ends with an error if it gets a lower one."""
    asked_at_s: float
    offset: Offset = 0
    """The offset of the last fetch that was answered here."""
    unseen_since_s: float | None = None
    """When the first fetch came of which the node does not know; None if it knows of all."""

    def is_unseen_in(self, epoch: Epoch) -> bool:
        """Whether there is something to tell the leader of `epoch`."""
        return self.unseen_since_s is not None and self.epoch == epoch

    def note(self, offset: Offset, now_s: float) -> None:
        """Notes a fetch that is answered here."""
        self.offset = offset
        if self.unseen_since_s is None:
            self.unseen_since_s = now_s


@dataclass(slots=True, kw_only=True, eq=False)
class _Held:
    """A fetch that waits for news, or for this gateway to have what its reader has."""

    request: FetchRequest
    partition: Partition
    reader: _Reader
    reply: Reply
    bytes_max: int
    ends_at_s: float
    timer: asyncio.TimerHandle | None = field(default=None)


class ReaderFetches:
    """Answers readers' Fetches from the end of the committed log, which `run` follows; others are the quorum node's.

    Call `take` or `answer` once before a Fetch is passed on to the node, `passed` with the node's answer.
    """

    def __init__(self, open_log: Open, report: Report, *, node_id: NodeId, bytes_max: int = TAIL_BYTES_MAX) -> None:
        self._open = open_log
        self._report = report
        self._node_id = node_id
        self._bytes_max = bytes_max
        self._readers: dict[ReaderKey, _Reader] = {}
        self._wanted: asyncio.Future[tuple[Offset, Epoch]] | None = None
        self._now_s: Callable[[], float] = lambda: 0.0
        """The clock of the loop, once `run` has begun; before that nobody is answered here."""
        self._reader: LogReader | None = None
        self._following: asyncio.Future[None] | None = None
        self._tail = LogTail(0, 0, bytes_max=bytes_max)
        self._held: dict[_Held, None] = {}
        """Those that wait, the oldest first."""
        self._is_waking = False

    async def answer(self, request: FetchRequest, listener: str) -> Served | None:
        """Returns the answer when `take` has it; None if the quorum node has to answer."""
        served: asyncio.Future[Served | None] = asyncio.get_running_loop().create_future()

        def reply(answer: Served | None) -> None:
            if not served.done():  # the caller may have gone
                served.set_result(answer)

        return await served if self.take(request, listener, reply) else None

    def take(self, request: FetchRequest, listener: str, reply: Reply) -> bool:
        """Has `reply` called at once, or when something is committed, at most `max_wait_ms` or HELD_MAX_S later.

        Returns False if the quorum node has to answer; `reply` gets None if that turns out while the fetch is held.
        """
        partition = partition_of(request)
        if partition is None:
            return False
        reader = self._readers.get((request.replica_state.replica_id, partition.replica_directory_id, listener))
        if reader is None:
            return False
        now_s = self._now_s()
        if reader.unseen_since_s is not None and now_s >= reader.unseen_since_s + NODE_EVERY_S:
            reader.unseen_since_s = None  # others without an id, which are one reader here, need not follow it there
            return False
        if not self._may_serve(request, partition, reader):
            return False
        reader.asked_at_s = now_s
        if partition.fetch_offset <= self._tail.end:  # beyond it, its log has not been compared
            reader.note(partition.fetch_offset, now_s)
        held = _Held(
            request=request,
            partition=partition,
            reader=reader,
            reply=reply,
            bytes_max=min(BYTES_MAX, request.max_bytes),
            ends_at_s=now_s + min(HELD_MAX_S, request.max_wait_ms / 1000),
        )
        wait_s = min(self._wait_s(held), held.ends_at_s - now_s)
        if wait_s > 0:
            self._hold(held, wait_s)
            return True
        if self._is_behind(held):
            return False
        self._serve(held)
        return True

    def passed(self, request: FetchRequest, listener: str, response: FetchResponse) -> None:
        """Notes the node's answer: after one without error `take` may serve the reader, and `run` follows the log."""
        partition, answered = partition_of(request), sound(response)
        if partition is None or self._is_voter(request.replica_state.replica_id):
            return
        key = (request.replica_state.replica_id, partition.replica_directory_id, listener)
        if answered is None or (key not in self._readers and len(self._readers) >= READERS_MAX):
            self._readers.pop(key, None)
            return
        now_s = asyncio.get_running_loop().time()
        before = self._readers.get(key)  # several readers without an id are one here, and the highest counts
        told = max(answered.high_watermark, 0 if before is None else before.high_watermark)
        epoch = answered.current_leader.leader_epoch
        if before is not None and before.form.is_of(response):
            form = before.form
        else:
            form = FetchForm(response)
        self._readers[key] = _Reader(form, epoch, told, now_s)
        if self._wanted is None or self._wanted.done() or answered.current_leader.leader_id != self._node_id:
            return
        if (start := start_of(partition, answered)) is not None:
            self._wanted.set_result(start)

    async def run(self) -> None:
        """Follows the log from where a reader is, as long as there are readers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell())
            await self._follow_readers()

    async def _tell(self) -> None:
        """Reports to the node how far readers are, some at a time."""
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            if self._reader is None:
                continue
            epoch = self._reader.leader_epoch
            unseen = [each for each in self._readers.items() if each[0][0] >= 0 and each[1].is_unseen_in(epoch)]
            for start in range(0, len(unseen), REPORTED_MAX):
                await self._told(unseen[start : start + REPORTED_MAX], epoch)

    async def _told(self, unseen: list[tuple[ReaderKey, _Reader]], epoch: Epoch) -> None:
        told = [(node_id, directory_id, reader.offset) for (node_id, directory_id, _), reader in unseen]
        since_s = [reader.unseen_since_s for _, reader in unseen]
        for _, reader in unseen:
            reader.unseen_since_s = None
        if not await self._report(epoch, told):
            for (_, reader), before_s in zip(unseen, since_s, strict=True):
                reader.unseen_since_s = before_s

    async def _follow_readers(self) -> None:
        self._now_s = asyncio.get_running_loop().time
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

    def _is_behind(self, held: _Held) -> bool:
        """Whether the reader has or knows of what is not here: it is not committed, or has not come yet."""
        return self._tail.end < max(held.partition.fetch_offset, held.reader.high_watermark)

    def _has_news(self, held: _Held) -> bool:
        """Whether something is committed that the reader has not or does not know of."""
        return self._tail.end > min(held.partition.fetch_offset, held.partition.high_watermark)

    def _wait_s(self, held: _Held) -> float:
        """Returns how long (s) a fetch that has just come is held; who needs more than an answer can carry is not."""
        if self._is_behind(held):
            return BEHIND_S
        if not self._has_news(held):
            return HELD_MAX_S
        return self._news_wait_s if self._tail.size_from(held.partition.fetch_offset) <= held.bytes_max else 0.0

    @property
    def _news_wait_s(self) -> float:
        return min(NEWS_WAIT_MAX_S, NEWS_WAIT_S * len(self._readers))

    def _hold(self, held: _Held, wait_s: float) -> None:
        self._held[held] = None
        held.timer = asyncio.get_running_loop().call_later(wait_s, self._look, held, True)

    def _look(self, held: _Held, is_due: bool) -> None:
        """Answers a fetch that is held if there is news for it, or if its wait is over."""
        if not self._may_serve(held.request, held.partition, held.reader) or (is_due and self._is_behind(held)):
            self._release(held)
            held.reply(None)
        elif self._is_behind(held):
            return
        elif self._has_news(held):
            self._release(held)
            self._serve(held)
        elif is_due and self._now_s() < held.ends_at_s:  # it was behind, and is not any more
            self._hold(held, held.ends_at_s - self._now_s())
        elif is_due:
            self._release(held)
            self._serve(held)

    def _release(self, held: _Held) -> None:
        del self._held[held]
        assert held.timer is not None, held
        held.timer.cancel()

    def _serve(self, held: _Held) -> None:
        """Answers with what is here: all of it is committed."""
        held.reader.high_watermark = self._tail.end
        if held.reader.offset != held.partition.fetch_offset:  # it was beyond the end when it came
            held.reader.note(held.partition.fetch_offset, self._now_s())
        FETCHES.add(1)
        records = self._tail.records(held.partition.fetch_offset, held.bytes_max)
        held.reply(Served(held.reader.form, records, self._tail.end))

    def _wake_soon(self) -> None:
        """Has those that wait looked at again, once there may be more for them."""
        if self._held and not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_later(self._news_wait_s, self._wake)

    def _wake(self) -> None:
        """Looks at all that wait, some in each turn of the loop."""
        self._is_waking = False
        self._wake_some(deque(self._held))

    def _wake_some(self, waiting: deque[_Held]) -> None:
        for _ in range(min(WOKEN_PER_TURN, len(waiting))):
            if (held := waiting.popleft()) in self._held:
                self._look(held, False)
        if waiting:
            asyncio.get_running_loop().call_soon(self._wake_some, waiting)

    def _forget_readers(self) -> bool:
        """Forgets who asks no more. Returns whether anybody is left."""
        oldest_s = asyncio.get_running_loop().time() - FORGOTTEN_S
        for key in [key for key, reader in self._readers.items() if reader.asked_at_s < oldest_s]:
            del self._readers[key]
        return bool(self._readers)
