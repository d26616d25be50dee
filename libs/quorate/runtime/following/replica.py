"""A replica of the cluster's state: it follows the metadata log and applies committed records.

Readers do not see records of an open metadata transaction, since it may still be aborted. KIP-868.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kraft import Message
from quorate.metadata.features import unfamiliar
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset
from quorate.records import FeatureLevelRecord, UnknownRecord, trace_of
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.event_loop.turns import decoded
from quorate.runtime.following.log_reader import CommittedBatch, Event, LoadedSnapshot
from quorate.runtime.logging.logs import logger
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.wire.batch import batches, data_values

log = logger(__name__)


class LogSource(Protocol):
    """The source of a replica: a `LogReader`, or a reader of another protocol."""

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster whose log is read; None until a node has reported it."""
        ...

    @property
    def leader_id(self) -> NodeId:
        """The node id of the leader in the last answer; -1 if it is unknown."""
        ...

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether a follower is read because the leader has no address for gRPC."""
        ...

    @property
    def high_watermark(self) -> Offset:
        """The highest high watermark that was reported."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Yields committed batches and loaded snapshots in order, until cancelled."""
        ...


class Replica:
    """The cluster's state, to which `run` applies the committed records of the log; others may wait for an offset.

    Read `state` only between two awaits: the next batch changes it. It contains exactly the records below `applied`.
    During a metadata transaction both stay as they were before its begin.
    """

    def __init__(
        self,
        reader: LogSource,
        clock: Clock,
        telemetry: Telemetry,
        hears: Callable[[Sequence[Message] | None], None] = lambda _records: None,
    ) -> None:
        """`hears` is called with the records of each batch once they are replayed, and with None for a checkpoint."""
        self._replayed = ClusterState()
        self._replayed_to: Offset = 0
        self.state = self._replayed
        self.applied: Offset = 0
        self.has_caught_up = False
        """Whether once something was applied, and no record below the high watermark, as last reported, was missing."""
        self.applied_at_ms: int = -1
        """The append time of the last applied record, by the leader's wall clock, in ms since 1970; -1 for none."""
        self._reader = reader
        self._clock = clock
        self._telemetry = telemetry
        self._hears = hears
        self._moved = asyncio.Event()
        self._unfamiliar: list[str] = []

    async def run(self) -> None:
        """Applies the log until cancelled. Raises Corrupt, or ReplayFault if a record contradicts the state."""
        async for event in self._reader.events():
            if isinstance(event, CommittedBatch):
                await self._apply(event)
            else:
                await self._load(event)
            self.has_caught_up = self.has_caught_up or self._replayed_to >= self.high_watermark
            self._moved.set()
            self._moved = asyncio.Event()

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster whose log is read; None until a node has reported it."""
        return self._reader.cluster_id

    @property
    def leader_id(self) -> NodeId:
        """The node id of the leader, as last reported by the node that is read; -1 if unknown."""
        return self._reader.leader_id

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether the leader is not one of our nodes: it has no address for gRPC, and a follower is read."""
        return self._reader.is_led_elsewhere

    @property
    def high_watermark(self) -> Offset:
        """The high watermark, as last reported: every record below it is committed."""
        return self._reader.high_watermark

    async def changes(self) -> AsyncIterator[Offset]:
        """Yields the offset below which all is replayed, at once and after each change; a slow caller may miss some.

        During a metadata transaction `applied` stays below it.
        """
        while True:
            moved = self._moved
            yield self._replayed_to
            await moved.wait()

    async def reached(self, offset: Offset) -> None:
        """Waits, without a limit, until every record below `offset` is applied."""
        while self.applied < offset:
            await self._moved.wait()

    async def caught_up(self) -> None:
        """Waits, without a limit, until `has_caught_up`."""
        while not self.has_caught_up:
            await self._moved.wait()

    @contextmanager
    def held(self) -> Iterator[tuple[ClusterState, Offset]]:
        """Yields the state as it is now, and its offset (exclusive); both stay so in the block while `run` goes on."""
        state, offset = self.state, self.applied
        registry = state.registry
        if offset not in registry:
            registry.create(offset)
        registry.hold(offset)
        try:
            yield (state.at(offset) if state is self._replayed else state), offset
        finally:
            registry.release(offset)

    async def _apply(self, batch: CommittedBatch) -> None:
        """Decodes a batch in turns and applies it at once: so nobody reads a state with half of it."""
        started = self._clock.wall_ns()
        header = batch.header
        assert header.base_offset == self._replayed_to, (header, self._replayed_to)  # I-23: no gap, no repetition
        records: tuple[Message, ...] = () if header.is_control else await decoded(data_values(batch.data))
        self._replayed.apply_all(records, header.base_offset)
        for offset, record in enumerate(records, start=header.base_offset):
            if type(record) is UnknownRecord:
                log.warning(
                    "a record of an unknown type: its content is kept, but no answer shows it",
                    api_key=record.api_key,
                    offset=offset,
                )
        self._replayed.settle()
        if any(type(record) is FeatureLevelRecord for record in records):
            self._warn_of_levels()
        self._replayed_to = header.next_offset
        self._hears(records)
        self._publish()
        self.applied_at_ms = header.max_timestamp
        if records and self._telemetry.enabled:
            self._telemetry.span_from(
                trace_of(records[0]),
                "apply",
                start_ns=started,
                end_ns=self._clock.wall_ns(),
                attributes={
                    "kraft.epoch": header.epoch,
                    "kraft.base_offset": header.base_offset,
                    "kraft.record_count": header.count,
                },
            )

    async def _load(self, snapshot: LoadedSnapshot) -> None:
        """Builds another state in turns, batch by batch; until that is whole, the one before it is read."""
        assert snapshot.end_offset >= self._replayed_to, (snapshot.end_offset, self._replayed_to)  # I-23
        loaded = ClusterState()
        for position, header in batches(snapshot.data):
            if not header.is_control:
                loaded.load_more(await decoded(data_values(snapshot.data, position, header)), snapshot.end_offset)
                await asyncio.sleep(0)
        self._replayed, self._replayed_to = loaded, snapshot.end_offset
        self._warn_of_levels()
        self._hears(None)
        self._publish()
        log.info("loaded a snapshot", end_offset=snapshot.end_offset, epoch=snapshot.epoch)

    def _warn_of_levels(self) -> None:
        """Warns of a finalized level that this release does not know, where a controller ends."""
        reasons = list(unfamiliar(self._replayed.features.finalized()))
        for reason in reasons:
            if reason not in self._unfamiliar:
                log.warning("a feature is finalized that this release does not know", reason=reason)
        self._unfamiliar = reasons

    def _publish(self) -> None:
        """Sets `state` and `applied`: the replayed state, or during a transaction the state before its begin."""
        transaction = self._replayed.transactions.open
        if transaction is None:
            self.state, self.applied = self._replayed, self._replayed_to
        elif self.state is self._replayed or self.applied != transaction.start:
            self.state, self.applied = self._replayed.at(transaction.start), transaction.start
