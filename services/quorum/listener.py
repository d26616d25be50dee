"""What the controller beside this node is told, in order: snapshots, committed batches, who leads, what is committed.

Events are not queued: each is read off the present when the stream has room for it, so a slow controller
costs nothing here and is never told what is no longer so. The present is what the driver has carried out; the
core may be ahead of that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

from kraft.service.quorum_pb2 import ListenResponse
from quorate.nouns import Epoch, Offset
from quorate.raft.ready import Leadership
from quorate.wire.batch import batches
from services.quorum.driver import Driver

EVENT_BYTES_MAX: Final = 1024 * 1024
"""Batches of one event. A replay of a long log needs large ones, a gRPC message has its limit."""

NOBODY: Final = -1
UNTOLD: Final = Leadership(epoch=-1, leader_id=None)


class Listener:
    """One controller's place in the log, and what it has been told of leadership."""

    def __init__(self, driver: Driver, next_offset: Offset) -> None:
        self.active_epoch: Epoch | None = None
        """The last epoch in which this controller was told that it is active."""
        self._driver = driver
        self._next = next_offset
        self._told = UNTOLD
        self._committed = -1

    async def events(self) -> AsyncIterator[ListenResponse]:
        """Every event, until the stream is cancelled."""
        while True:
            changed = self._driver.changed
            due = self._due()
            for event in due:
                yield event
            if due == []:
                await changed.wait()

    def _leads_here(self) -> bool:
        """Has the controller been told that it is active, and is that still so?"""
        return self._told.epoch_start_offset is not None and self._told == self._driver.leadership

    def _due(self) -> Iterable[ListenResponse]:
        """What the controller is to be told next, [] if nothing; nothing is told before what comes before it."""
        leadership, high_watermark = self._driver.leadership, self._driver.high_watermark
        if self._told.epoch_start_offset is not None and leadership != self._told:
            return [self._renounce(leadership)]
        if self._leads_here():
            return self._commit(high_watermark)
        if self._next < self._driver.core.log.start:
            return self._snapshot()
        if self._next < high_watermark:
            return [self._batches(high_watermark)]
        if leadership == self._told:
            return []
        if leadership.epoch_start_offset is None:
            return [self._renounce(leadership)]
        if self._next > leadership.epoch_start_offset:
            return self._claim(leadership)
        return []

    def _claim(self, leadership: Leadership) -> list[ListenResponse]:
        """This node leads, and its controller has applied all of earlier epochs (KIP-595)."""
        if not self._driver.claim(leadership.epoch):
            return []  # another is active in this epoch, and of what it has written last this one may not know
        self._told, self._committed, self.active_epoch = leadership, self._next, leadership.epoch
        told = ListenResponse.Leadership(
            leader_id=leadership.leader_id, epoch=leadership.epoch, next_offset=self._driver.core.log.leo
        )
        return [ListenResponse(leadership=told)]

    def _renounce(self, leadership: Leadership) -> ListenResponse:
        """Another node leads, or none does. A leader of our own is told of later, when its time has come."""
        leads_itself = leadership.epoch_start_offset is not None
        self._told = Leadership(epoch=leadership.epoch, leader_id=None) if leads_itself else leadership
        leader_id = NOBODY if leads_itself or leadership.leader_id is None else leadership.leader_id
        return ListenResponse(leadership=ListenResponse.Leadership(leader_id=leader_id, epoch=leadership.epoch))

    def _commit(self, high_watermark: Offset) -> list[ListenResponse]:
        if high_watermark <= self._committed:
            return []
        self._committed = self._next = high_watermark
        return [ListenResponse(committed=ListenResponse.Committed(high_watermark=high_watermark))]

    def _batches(self, high_watermark: Offset) -> ListenResponse:
        data = self._driver.disk.read(self._next, EVENT_BYTES_MAX)
        end = 0
        for position, header in batches(data):
            if header.next_offset > high_watermark:
                break
            end, self._next = position + header.size, header.next_offset
        assert end, (self._next, high_watermark)
        return ListenResponse(batches=ListenResponse.Batches(records=data[:end]))

    def _snapshot(self) -> Iterator[ListenResponse]:
        """The latest snapshot, whole: the log before it is gone. A message is made when the last one was taken."""
        snapshot = self._driver.core.log.latest_snapshot
        assert snapshot is not None, "a log that does not start at 0 has a snapshot"
        data = self._driver.disk.snapshot_bytes(snapshot)
        self._next = snapshot.offset
        for at in range(0, len(data), EVENT_BYTES_MAX):
            chunk = ListenResponse.SnapshotChunk(
                end_offset=snapshot.offset,
                epoch=snapshot.epoch,
                data=data[at : at + EVENT_BYTES_MAX],
                last=at + EVENT_BYTES_MAX >= len(data),
            )
            yield ListenResponse(snapshot=chunk)
