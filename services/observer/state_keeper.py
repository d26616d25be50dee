"""Keeps the database of the cluster's state: follows the log, and writes what each record changed, in its order.

It has a state of its own, which stands where the database does, so that a database that is away holds up no reads. Of
several observers on one database one writes, and the others stand by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, TypeVar

import sqlalchemy as sa

from quorate.kafka_quorum.log import KafkaLog
from quorate.nouns import Offset
from quorate.runtime.event_loop.clock import Clock, SystemClock
from quorate.runtime.event_loop.daemon_threads import DaemonThreads
from quorate.runtime.following.log_reader import CommittedBatch, Event, LoadedSnapshot, LogReader
from quorate.runtime.logging.logs import logger
from quorate.sql.following import Following
from quorate.sql.state_database import Applied, StateDatabase, Superseded
from quorate.sql.state_writes import Missing
from services.observer.database import is_refused, reason_of, refusal
from services.observer.engines import engine_of, is_away
from services.observer.state_log import apply, loaded, skip

__all__ = ["SETTING", "StateKeeper"]

log = logger(__name__)

SETTING: Final = "observer.state.database.url"
CHANGES_MAX: Final = 20_000
"""Rows that are written in one transaction of the database, beside those of one batch of the log."""
WRITE_S: Final = 0.025
"""How long (s) a change waits for others that are written with it, while more of the log comes than is followed."""
AHEAD_BYTES: Final = 1 << 20
"""How much of the log is read on while other parts of it are followed and written."""
BATCHES_PER_TURN: Final = 50
"""Batches that are followed, some 3 ms if each has one record, before the event loop runs other tasks."""
AGAIN_S: Final = 1.0
"""The pause (s) before a database that is away, or that another observer writes, is tried again."""
REFUSED_S: Final = 30.0
"""The pause (s) before a database is given again what it has refused: the cause may be mended meanwhile."""
DROP_EACH_S: Final = 300.0
"""The pause (s) before the past is looked at again for what is too old, as Kafka's log.retention.check.interval.ms."""
CLOSE_S: Final = 1.0
"""How long (s) a close waits for what the database is doing."""

T = TypeVar("T")


class StateKeeper:
    """Keeps the state and its history in a database: follows the log, and writes what each record has changed.

    `source` opens the log, from its beginning or a snapshot on, each time it is called.
    """

    def __init__(
        self,
        url: str,
        source: Callable[[], LogReader | KafkaLog],
        *,
        retention_ms: int = -1,
        clock: Clock | None = None,
    ) -> None:
        """Rows that ended `retention_ms` before the last record of the log are dropped from the past; -1 for nothing.

        A record that is later than our own clock counts as of now: the leader's clock was ahead.
        """
        self._clock = clock or SystemClock()
        self._url = url
        self._source = source
        self._database = StateDatabase(engine_of(url, synchronous="NORMAL"))
        self._thread = DaemonThreads(1, "state-writer")  # a database may hang for ever
        self._at: Applied | None = None
        """How far the database is."""
        self._seen: Applied | None = None
        """How far the log is followed."""
        self._following = Following()
        self._is_told = False
        self._is_taken = False
        """Whether the database was ours at some time: a refusal after that does not end the observer."""
        self._pause_s = AGAIN_S
        self._retention_ms = retention_ms
        self._drop_s = float("-inf")
        """When the past is looked at next, by the loop's clock."""

    async def run(self) -> None:
        """Keeps the database up to date until cancelled. While it is away, or another observer writes it, it waits.

        Raises ConfigError if the database refuses us at the start, or is of another log.
        """
        while True:
            try:
                self._at = await self._lock_database()
                await self._follow()
            except Missing as why:
                raise self._refusal(str(why)) from None
            except Superseded as why:
                log.warning("another process has written the state's database", reason=str(why))
                await self._do(self._database.close)
                await asyncio.sleep(AGAIN_S)

    async def close(self) -> None:
        """Closes the database; a database that hangs is left as it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._do(self._database.close)

    async def _lock_database(self) -> Applied | None:
        """Waits until the database is ours to write. Returns how far it is."""
        is_told = False
        while True:
            if await self._try(self._database.lock, default=False):
                nothing: list[Applied | None] = []
                found = await self._try(lambda: [self._database.applied()], default=nothing)
                if found:
                    self._is_taken = True
                    if self._database.left_views:
                        views = list(self._database.left_views)
                        log.warning("views of the state's database are left as another release made them", views=views)
                    log.info("keeps the state's database", next_offset=found[0].next_offset if found[0] else 0)
                    return found[0]
                await self._do(self._database.close)
            elif not is_told:
                log.info("the state's database is away, or another observer writes it; this one stands by")
                is_told = True
            await asyncio.sleep(self._pause_s)

    async def _follow(self) -> None:
        """Follows the log from its beginning, and writes from where the database is."""
        self._following, self._seen, self._is_told = Following(), None, False
        source, clock = self._source(), asyncio.get_running_loop().time
        written_s = clock()
        try:
            async with aclosing(_in_bursts(source.events())) as bursts:
                async for events in bursts:
                    for left, event in zip(range(len(events) - 1, -1, -1), events, strict=True):
                        await self._take(event, source)
                        is_due = len(self._following.changes) >= CHANGES_MAX or clock() >= written_s + WRITE_S
                        if not left or is_due:
                            await self._write()
                            written_s = clock()
                        elif left % BATCHES_PER_TURN == 0:
                            await asyncio.sleep(0)
        finally:
            if isinstance(source, LogReader):
                await source.close()

    async def _take(self, event: Event, source: LogReader | KafkaLog) -> None:
        cluster_id = source.cluster_id or ""
        if self._at is not None and self._at.cluster_id != cluster_id:
            raise self._refusal(f"has the state of cluster {self._at.cluster_id}; the log is of cluster {cluster_id}")
        if isinstance(event, LoadedSnapshot):
            self._following, self._seen = await loaded(event, cluster_id)
            if self._at is None or self._at.next_offset < event.end_offset:
                if self._at is not None and event.epoch < self._at.epoch:
                    raise self._refusal(
                        f"ends at offset {self._at.next_offset} in epoch {self._at.epoch}, and a checkpoint of the log "
                        f"has epoch {event.epoch} at offset {event.end_offset}: it is not the same log"
                    )
                await self._replace()
        else:
            await self._take_batch(event, cluster_id)
            self._tell_if_ahead(source.high_watermark)
        if self._at is not None and self._seen is not None and self._seen.next_offset == self._at.next_offset:
            await self._meet(self._at, self._seen, is_batch=isinstance(event, CommittedBatch))

    async def _take_batch(self, batch: CommittedBatch, cluster_id: str) -> None:
        header, at = batch.header, self._at
        assert self._seen is None or header.base_offset == self._seen.next_offset, (header, self._seen)  # I-23
        if at is None or at.next_offset <= header.base_offset:
            await apply(self._following, batch)
        elif at.next_offset < header.next_offset:
            raise self._refusal(
                f"ends at offset {at.next_offset}, where a batch of the log goes on from {header.base_offset} to "
                f"{header.next_offset}"
            )
        else:
            await skip(self._following, batch)
        self._seen = Applied(cluster_id, header.next_offset, header.epoch, header.max_timestamp)

    def _tell_if_ahead(self, high_watermark: Offset) -> None:
        """Warns once of a database that has more of the log than there is; `_meet` tells if it is the same log."""
        seen, at = self._seen, self._at
        if at is None or seen is None or self._is_told or not high_watermark <= seen.next_offset < at.next_offset:
            return
        log.warning(
            "the state's database is ahead of the log; until the log has come there, nothing is written",
            next_offset=at.next_offset,
            high_watermark=high_watermark,
        )
        self._is_told = True

    async def _meet(self, at: Applied, seen: Applied, *, is_batch: bool) -> None:
        """Raises ConfigError unless the log is the one whose end the database has, by the epoch there (KIP-101).

        And by the time of the batch: a cluster that was formatted anew with its id has the same epochs again. That of a
        checkpoint is from its writer, and is not compared.
        """
        if at.epoch != seen.epoch:
            raise self._refusal(
                f"ends at offset {at.next_offset} in epoch {at.epoch}, and the log has epoch {seen.epoch} there: it is "
                "not the same log"
            )
        if is_batch and not self._database.is_replaced and at.timestamp_ms != seen.timestamp_ms:
            raise self._refusal(
                f"ends at offset {at.next_offset} with a batch of {at.timestamp_ms} ms since 1970, and the log has one "
                f"of {seen.timestamp_ms} ms there: it is not the same log"
            )
        if self._database.is_grown:
            await self._replace()

    def _refusal(self, reason: str) -> Exception:
        return refusal(SETTING, self._url, f"it {reason}; name another one, or delete this one")

    async def _write(self) -> None:
        """Writes what has changed, unless a metadata transaction is open, or the database is as far, or farther."""
        before, after = self._at, self._seen
        if after is None or not self._following.is_between_transactions:
            return
        if before is None or before.next_offset < after.next_offset:
            changes = self._following.take()
            await self._commit(partial(self._database.write, changes, before=before, after=after), before, after)
            await self._drop_past(after)

    async def _drop_past(self, at: Applied) -> None:
        """Drops a part of what is too old, if it is time for that. Raises Superseded."""
        clock = asyncio.get_running_loop().time
        if self._retention_ms < 0 or clock() < self._drop_s:
            return
        nothing: list[bool] = []
        before_ms = min(at.timestamp_ms, self._clock.wall_ms()) - self._retention_ms
        done = await self._try(lambda: [self._database.drop_past(before_ms)], default=nothing)
        self._drop_s = clock() + (0 if done == [True] else DROP_EACH_S)
        if not done:
            await self._do(self._database.close)
            if (found := await self._lock_database()) != at:
                raise Superseded(f"it was at {at}, and is at {found}")

    async def _replace(self) -> None:
        before, after = self._at, self._seen
        assert after is not None, before
        image = self._following.image
        await self._commit(partial(self._database.replace, image, before=before, after=after), before, after)

    async def _commit(self, work: Callable[[], None], before: Applied | None, after: Applied) -> None:
        """Has a transaction written once, also if the answer to its commit is lost. Raises Superseded."""
        assert before is None or before.next_offset <= after.next_offset, (before, after)
        while not await self._try(lambda: _done(work), default=False):
            await self._do(self._database.close)
            await asyncio.sleep(self._pause_s)
            found = await self._lock_database()
            if found == after:
                break
            if found != before:
                raise Superseded(f"it was at {before}, and is at {found}")
        self._at = after

    async def _try(self, work: Callable[[], T], *, default: T) -> T:
        """Returns what `work` does; the default if the database fails. Raises ConfigError if it never had us."""
        self._pause_s = AGAIN_S
        try:
            return await self._do(work)
        except sa.exc.DBAPIError as error:
            if not self._is_taken and is_refused(error, self._url):
                raise refusal(SETTING, self._url, reason_of(error)) from None
            if is_away(error):
                log.warning("the state's database cannot be written; it is tried again", reason=reason_of(error))
            else:
                self._pause_s = REFUSED_S
                log.error(
                    "the state's database refuses a write, and stays where it is until that is mended",
                    next_offset=self._at.next_offset if self._at else 0,
                    reason=reason_of(error),
                    again_in_s=REFUSED_S,
                )
            return default
        except OSError as error:
            if self._is_taken:
                log.warning("the state's database cannot be locked; it is tried again", reason=str(error))
                return default
            raise refusal(SETTING, self._url, f"{error.filename}: {error.strerror}") from None

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _done(work: Callable[[], None]) -> bool:
    work()
    return True


async def _in_bursts(events: AsyncIterator[Event]) -> AsyncGenerator[Sequence[Event], None]:
    """Yields events in their order, each time all that have come meanwhile: those are written together."""
    waiting, came, taken = list[Event](), asyncio.Event(), asyncio.Event()

    async def read() -> None:
        size = 0
        try:
            async for event in events:
                size = len(event.data) + (size if waiting else 0)
                waiting.append(event)
                came.set()
                if size >= AHEAD_BYTES:
                    taken.clear()
                    await taken.wait()
        finally:
            came.set()

    reading = asyncio.ensure_future(read())
    try:
        while await came.wait():
            if not waiting:
                await reading
                return
            if not reading.done():
                came.clear()
            some = waiting.copy()
            waiting.clear()
            taken.set()
            yield some
    finally:
        reading.cancel()
        await asyncio.wait([reading])
