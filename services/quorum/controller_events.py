"""Events for the controller (RaftClient.Listen): snapshots, committed batches, leader changes, high watermarks.

Events are in order, but not queued: each is computed from the current state when the stream has room for it, so a slow
controller costs no memory here and gets no outdated event. The state is the one that the driver has executed; the core
may be ahead of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from kraft.service.quorum_pb2 import ListenResponse
from quorate.nouns import NOBODY, Epoch, Offset
from quorate.raft.ready import Leadership
from quorate.wire.batch import batches
from services.quorum.driver import QuorumDriver

EVENT_BYTES_MAX: Final = 1024 * 1024
"""Most bytes of batches in one event: large for a fast replay, but below gRPC's message limit."""

STANDBY_PAUSE_S: Final = 0.01
"""Pause after an event for a standby: what is committed meanwhile comes in one event, as no caller waits for it."""

NOTHING_SENT: Final = Leadership(epoch=-1, leader_id=None)


class ControllerEvents:
    """Makes the events of one controller's Listen stream, of which `next_offset` is the first offset that it lacks."""

    def __init__(self, driver: QuorumDriver, next_offset: Offset) -> None:
        self.active_epoch: Epoch | None = None
        """The last epoch in which this controller was made active; None if in none."""
        self._driver = driver
        self._next = next_offset
        self._sent = NOTHING_SENT
        self._committed = -1

    async def events(self) -> AsyncIterator[ListenResponse]:
        """Yields snapshot chunks, committed batches, changes of leadership and high watermarks, until it is cancelled.

        It waits while there is nothing new. The active controller gets no batches: it has written them itself.
        """
        while True:
            changed = self._driver.changed
            due = self._due()
            for event in due:
                yield event
            if due == []:
                await changed.wait()
            elif self._is_up_to_date_elsewhere():
                await asyncio.sleep(STANDBY_PAUSE_S)

    def _leads_here(self) -> bool:
        """Whether the controller was made active, and the leadership has not changed since."""
        return self._sent.epoch_start_offset is not None and self._sent == self._driver.leadership

    def _is_up_to_date_elsewhere(self) -> bool:
        """Whether another node leads, and the controller was sent all that is committed."""
        return self._driver.leadership.epoch_start_offset is None and self._next >= self._driver.high_watermark

    def _due(self) -> Iterable[ListenResponse]:
        """Returns the next events for the controller in order, [] if there are none."""
        leadership, high_watermark = self._driver.leadership, self._driver.high_watermark
        if self._sent.epoch_start_offset is not None and leadership != self._sent:
            return [self._renounce(leadership)]
        if self._leads_here():
            return self._commit(high_watermark)
        if self._next < self._driver.core.log.start:
            return self._snapshot()
        found = self._batches(high_watermark) if self._next < high_watermark else []
        return found if self._next < high_watermark else [*found, *self._beside(leadership, high_watermark)]

    def _beside(self, leadership: Leadership, high_watermark: Offset) -> list[ListenResponse]:
        """Returns what the controller gets beside the log, once it was sent all below the high watermark of now.

        With the last batches: under steady writes there are others to send whenever the stream has room again.
        """
        if leadership == self._sent:
            return self._whole(high_watermark)
        if leadership.epoch_start_offset is None:
            return [self._renounce(leadership)]
        if leadership.epoch_start_offset < self._next <= self._driver.core.log.leo:
            return self._claim(leadership)
        return []

    def _claim(self, leadership: Leadership) -> list[ListenResponse]:
        """Makes the controller active: this node leads, and the controller has applied all earlier epochs (KIP-595)."""
        if not self._driver.claim(leadership.epoch):
            return []  # another controller was active in this epoch, and this one may not have its last records
        assert self.active_epoch is None or self.active_epoch < leadership.epoch, (self.active_epoch, leadership)
        self._sent, self._committed, self.active_epoch = leadership, self._next, leadership.epoch
        claim = ListenResponse.Leadership(
            leader_id=leadership.leader_id, epoch=leadership.epoch, next_offset=self._driver.core.log.leo
        )
        return [ListenResponse(leadership=claim)]

    def _renounce(self, leadership: Leadership) -> ListenResponse:
        """Reports that another node leads, or none; this node's own leadership follows with `_claim`."""
        leads_itself = leadership.epoch_start_offset is not None
        self._sent = Leadership(epoch=leadership.epoch, leader_id=None) if leads_itself else leadership
        leader_id = NOBODY if leads_itself or leadership.leader_id is None else leadership.leader_id
        return ListenResponse(leadership=ListenResponse.Leadership(leader_id=leader_id, epoch=leadership.epoch))

    def _commit(self, high_watermark: Offset) -> list[ListenResponse]:
        if high_watermark <= self._committed:
            return []
        self._committed = self._next = high_watermark
        return [ListenResponse(committed=ListenResponse.Committed(high_watermark=high_watermark))]

    def _whole(self, high_watermark: Offset) -> list[ListenResponse]:
        """Tells a standby, once, that it was sent all that is committed, as the leader says.

        At a start the high watermark is not known, and while this node fetches, its own is behind the leader's.
        """
        if self._committed >= 0 or not self._driver.is_caught_up:
            return []
        assert self._next >= high_watermark, (self._next, high_watermark)
        self._committed = high_watermark
        return [ListenResponse(committed=ListenResponse.Committed(high_watermark=high_watermark))]

    def _batches(self, high_watermark: Offset) -> list[ListenResponse]:
        """Returns the next committed batches as one event; [] if no whole batch is committed."""
        data = self._driver.disk.read(self._next, EVENT_BYTES_MAX)
        end = 0
        for position, header in batches(data):
            if header.next_offset > high_watermark:
                break
            assert header.base_offset <= self._next < header.next_offset, (header, self._next)  # I-23
            end, self._next = position + header.size, header.next_offset
        return [ListenResponse(batches=ListenResponse.Batches(records=data[:end]))] if end else []

    def _snapshot(self) -> Iterator[ListenResponse]:
        """Yields the latest snapshot in chunks, each built when the stream has room; the log before it is removed."""
        snapshot = self._driver.core.log.latest_snapshot
        assert snapshot is not None, "a log that does not start at 0 has a snapshot"
        data = self._driver.disk.snapshot_bytes(snapshot)
        self._next, self._committed = snapshot.offset, -1
        for at in range(0, len(data), EVENT_BYTES_MAX):
            chunk = ListenResponse.SnapshotChunk(
                end_offset=snapshot.offset,
                epoch=snapshot.epoch,
                data=data[at : at + EVENT_BYTES_MAX],
                last=at + EVENT_BYTES_MAX >= len(data),
            )
            yield ListenResponse(snapshot=chunk)
