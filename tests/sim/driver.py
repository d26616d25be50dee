"""What is done with a `Ready`: the driver's order of writing and sending, with a place to die after each step."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quorate.nouns import Offset
from quorate.raft import BatchInfo, Raft, Ready
from quorate.raft.messages import FetchResponse, FetchSnapshotResponse, Response, VoteRequest
from quorate.raft.ready import SnapshotChunk
from tests.sim.content import Damaged, as_batch
from tests.sim.disk import DiskFull, FsyncFailed
from tests.sim.wire import Route

if TYPE_CHECKING:
    from tests.sim.node import Node


class Driver:
    """Writes and sends for one life of one node."""

    def __init__(self, node: Node, random: Random) -> None:
        self.node = node
        self._world = node.world
        self._random = random
        self._is_flushing = False

    def carry_out(self, raft: Raft, ready: Ready) -> Iterator[str]:
        """What `Ready` lists, in its order: nothing leaves that is not durable first."""
        checker, disk = self._world.checker, self.node.disk
        checker.before_writing(self.node, ready)
        if ready.election is not None:
            yield from self.synced(disk.persist(ready.election))
            checker.after_persisting(self.node)
        if ready.truncate_to is not None:
            disk.log.truncate(ready.truncate_to)
            yield "log.truncate"
        if ready.install is not None:
            disk.install(ready.install)
            yield "log.install"
        for entry in ready.append:
            self._append(as_batch(entry))
            yield "log.append"
        if ready.chunk is not None:
            yield from self._store_chunk(raft, ready.chunk)
        if ready.chunk is None or not ready.chunk.is_last:  # else the core is ahead of the disk by an installation
            checker.before_sending(self.node)
        yield from self._send(raft, ready)
        yield from self.flush(raft)

    def flush(self, raft: Raft) -> Iterator[str]:
        """What is written is flushed meanwhile: the core hears when that has ended."""
        self._begin_flush()
        yield from ()

    def _append(self, batch: BatchInfo) -> None:
        if self.node.disk.is_full:
            raise DiskFull
        if self._world.happens(self._world.plan.short_write, "S-18"):
            self.node.disk.log.append(batch)
            self.node.disk.log.rotten.add(batch.base_offset)  # half of it is there, and the process stops
            raise DiskFull
        self._world.checker.before_append(self.node, batch)
        self.node.disk.log.append(batch)

    def synced(self, steps: Iterator[str]) -> Iterator[str]:
        for step in steps:
            if "sync" in step and self._world.happens(self._world.plan.fsync_error, "S-17"):
                raise FsyncFailed
            yield step

    def _store_chunk(self, raft: Raft, chunk: SnapshotChunk) -> Iterator[str]:
        disk = self.node.disk
        yield from self.synced(disk.store_chunk(chunk))
        if not chunk.is_last:
            return
        yield from self.synced(disk.freeze(chunk.snapshot_id))
        try:
            header = disk.snapshot(chunk.snapshot_id)
        except Damaged:
            raft.snapshot_failed(chunk.snapshot_id, self.node.turn_ms)
        else:
            raft.snapshot_complete(
                chunk.snapshot_id, header.voters, self.node.turn_ms, kraft_version=header.kraft_version
            )

    def _send(self, raft: Raft, ready: Ready) -> Iterator[str]:
        answers, requests = list(ready.answers), list(ready.requests)
        if self._world.happens(self._world.plan.shuffle, "S-26"):
            self._random.shuffle(answers)
            self._random.shuffle(requests)
        for answer in answers:
            route = answer.reply_to
            assert isinstance(route, Route), answer
            self._world.checker.before_answer(self.node, route, answer)
            filled = self._filled(answer)
            if filled is not None:
                self._world.wire.answer(self.node.key, filled, route)
            yield "send.answer"
        for send in requests:
            if isinstance(send.request, VoteRequest):
                self._world.checker.before_vote_request(self.node, send.request)
            if send.to in self._world.nodes:
                self._world.wire.ask(Route(self.node.id, self.node.life, send.request.reply_to, send.request), send.to)
            yield "send.request"

    def _filled(self, answer: Response) -> Response | None:
        """With the bytes that it says are to be read; None if the disk does not give them."""
        if not isinstance(answer, FetchResponse | FetchSnapshotResponse) or answer.read is None:
            return answer
        if self._world.happens(self._world.plan.read_error, "S-18"):
            return None
        if isinstance(answer, FetchResponse):
            return replace(answer, batches=self.node.disk.log.read(answer.read), read=None)
        return replace(answer, data=self.node.disk.read_snapshot(answer.read), read=None)

    def _begin_flush(self) -> None:
        """One flush at a time; what is written meanwhile is in the next."""
        log = self.node.disk.log
        if self._is_flushing or log.flushed >= log.leo:
            return
        self._is_flushing = True
        life, end = self.node.life, log.leo
        self._world.at(self._world.flush_ms(), lambda: self._end_flush(life, end))

    def _end_flush(self, life: int, end: Offset) -> None:
        if self.node.raft is None or self.node.life != life:
            return
        self._is_flushing = False
        if self._world.happens(self._world.plan.fsync_error, "S-17") and not self.retry_flush(end):
            self._world.lose_cache(self.node)
            self.node.crash("fsync failed", power=False)
            return
        self.node.disk.log.flushed = max(self.node.disk.log.flushed, end)

        def deed(raft: Raft) -> None:
            raft.flushed(end, self.node.turn_ms)

        self.node.hear(deed)
        self._begin_flush()

    def retry_flush(self, end: Offset) -> bool:
        """May a failed fsync be asked for again? Never: the kernel has dropped what it could not write."""
        return False
