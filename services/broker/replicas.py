"""The broker's replicas: carries out, in order, what the core decides for each (`quorate.replication`; R10, R47).

Everything here happens in one turn of the event loop, which is the lock of all partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from quorate.errors import Corrupt, ErrorCode
from quorate.nouns import NodeId, Offset
from quorate.partition_log.effects import carry_out
from quorate.replication import (
    Alterations,
    Append,
    BrokerStanding,
    Effect,
    EndWaits,
    FetchPosition,
    FetchWait,
    HighWatermarkRaised,
    IsrCounts,
    Leading,
    LowWatermarkMoved,
    Partition,
    ProduceDone,
    ProduceWait,
    Propose,
    ReplicationSettings,
    StartFetching,
    StopFetching,
    Waits,
    acks_outcome,
    invariants,
)
from quorate.replication.waits import Done
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.logging.logs import logger
from quorate.wire.batch import Buffer
from services.broker.awaited import Awaited
from services.broker.resting import Resting
from services.broker.table import Hosted, Key, Table
from services.broker.traffic import Traffic

__all__ = ["Fetchers", "Replicas"]

log = logger(__name__)


class Fetchers(Protocol):
    """Starts and stops to fetch followers' replicas from their leaders."""

    def start(self, hosted: Hosted, leader_id: NodeId) -> None:
        """Fetches a replica from this leader from now on, and from no other one."""

    def stop(self, hosted: Hosted) -> None:
        """Stops fetching a replica: no answer that is on its way is taken any more."""

    def look_again(self, hosted: Hosted) -> None:
        """Has a replica looked at in the next round of fetches: its log has changed by something else than a fetch."""


class Replicas:
    """This broker's partitions: carries out what their core decides, and holds the requests that wait for them.

    The ISRs that leaders propose are collected in `alterations`, for `IsrChanges`.
    """

    def __init__(
        self, broker_id: NodeId, settings: ReplicationSettings, clock: Clock, fail: Callable[[BaseException], None]
    ) -> None:
        """`fail` hears of a disk that does not do what was decided: nothing can be relied on after that."""
        self.broker_id = broker_id
        self.settings = settings
        self.table = Table()
        self.applied: Offset = 0
        """The end of the metadata log as far as the partitions have their roles by it: what heartbeats tell."""
        self.brokers: dict[NodeId, BrokerStanding] = {}
        self.alterations: Alterations[Key] = Alterations(settings)
        self.proposed = asyncio.Event()
        """Set when there is something to ask the controller for."""
        self.recovery_point_fell = asyncio.Event()
        """Set when a log has lost records that were flushed: a start must not believe its marks any more."""
        self.isr_counts = IsrCounts()
        self.traffic = Traffic()
        self.resting = Resting()
        """The partitions that fetches of followers need not look at; each change of one wakes it."""
        self.awaited = Awaited(end=lambda wait: self._answer(self._waits.end(wait)))
        """The followers that have to fetch what this broker has begun to lead."""
        self.fetchers: Fetchers
        self.fail = fail
        self._clock = clock
        self._waits: Waits[Key] = Waits(self._partition_of)

    @property
    def now_ms(self) -> int:
        """The monotonic time (ms) of the core."""
        return self._clock.monotonic_ms()

    @property
    def wall_ms(self) -> int:
        """The time in ms since 1970, for the timestamps of records."""
        return self._clock.wall_ms()

    def carry_out(self, hosted: Hosted, effects: Iterable[Effect]) -> None:
        """Carries out what was decided for a partition, in order; then answers the held requests that this completes.

        A leader's batches that do not fit the log are given back to the follower's role, to be fetched again. Any other
        Corrupt, and OSError, is given to `fail`, and raised.
        """
        touches = False
        for effect in effects:
            self.resting.wake(hosted.key)
            try:
                self._do_to_log(hosted, effect)
            except Corrupt as damage:
                if not isinstance(effect, Append):  # it is the disk, and not what a leader has sent
                    self.fail(damage)
                    raise
                assert hosted.following is not None, (hosted.name, effect)
                self.carry_out(hosted, hosted.following.append_failed(effect, str(damage), now_ms=self.now_ms))
                return
            match effect:
                case Propose(proposal):
                    self.alterations.submit(hosted.key, proposal)
                    self.proposed.set()
                case StartFetching(leader_id=leader_id):
                    self.fetchers.start(hosted, leader_id)
                case StopFetching():
                    self.fetchers.stop(hosted)
                case HighWatermarkRaised() | LowWatermarkMoved() | EndWaits() | Append():
                    touches = True
        invariants.check(hosted.partition)
        if touches:
            self.touch(hosted.key)

    def appended(self, hosted: Hosted, role: Leading) -> None:
        """Does what follows a leader's append: the high watermark may rise, and held fetches may have enough (R44)."""
        self.carry_out(hosted, role.advance(self.now_ms))
        self.touch(hosted.key)

    def trimmed(self, hosted: Hosted) -> None:
        """Does what follows a log start that retention or DeleteRecords has raised: other replicas get the new log
        start."""
        self.touch(hosted.key)
        self.fetchers.look_again(hosted)

    def touch(self, key: Key) -> None:
        """Wakes a partition that rests in fetch sessions. Answers the held requests that its state completes by now."""
        self.resting.wake(key)
        self._answer(self._waits.touch(key))

    def join(self, wait: FetchWait[Key], key: Key, position: FetchPosition) -> None:
        """Adds a partition, to be read from `position`, to a fetch that is held; nothing if it is held no more."""
        self._waits.join(wait, key, position)

    async def held(self, wait_of: Callable[[object], ProduceWait[Key] | FetchWait[Key]]) -> Done[Key]:
        """Holds a request until its partitions complete it, or its deadline has come; returns what it is answered with.

        `wait_of` makes the wait from its `reply_to`. A request that is complete already is not held. When cancelled,
        the wait ends.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Done[Key]] = loop.create_future()
        wait = wait_of(answer)
        done = self._waits.hold(wait, now_ms=self.now_ms)
        if done is not None:
            return done
        timer = loop.call_later(max(wait.deadline_ms - self.now_ms, 0) / 1000 + 0.001, self.expire)
        try:
            return await answer
        finally:
            timer.cancel()
            if not answer.done() or answer.cancelled():
                self._waits.drop(wait)

    async def reached(
        self,
        required: Mapping[Key, Offset],
        *,
        timeout_ms: int,
        outcome_of: Callable[[Partition, Offset], ErrorCode | None] = acks_outcome,
    ) -> Mapping[Key, ErrorCode]:
        """Waits until each partition has reached the offset (exclusive end) required of it; returns how that ended.

        By partition: NONE, an error of `outcome_of`, or REQUEST_TIMED_OUT after `timeout_ms` (ms from now).
        `outcome_of` is asked when a partition has changed, and returns None until it is known: by default for a write
        with acks=all (R45).
        """
        deadline_ms = self.now_ms + timeout_ms
        done = await self.held(
            lambda reply_to: ProduceWait(
                required=required, deadline_ms=deadline_ms, reply_to=reply_to, outcome_of=outcome_of
            )
        )
        assert isinstance(done, ProduceDone), done
        return done.outcomes

    def expire(self) -> None:
        """Answers the held requests whose time is over, also those whose callers are gone."""
        self._answer(self._waits.expire(self.now_ms))

    def give_up(self, hosted: Hosted) -> None:
        """Stops a partition's role and its fetcher, takes it out of the table, and answers the requests held for it.

        Its log stays open.
        """
        self.carry_out(hosted, hosted.partition.stop())
        self.alterations.withdraw(hosted.key)
        self.table.remove(hosted)
        self.touch(hosted.key)

    def _partition_of(self, key: Key) -> Partition | None:
        hosted = self.table.get(key)
        return None if hosted is None else hosted.partition

    def _do_to_log(self, hosted: Hosted, effect: Effect) -> None:
        """Does to the log what was decided. Raises Corrupt, and OSError, which ends the broker."""
        flushed = hosted.log.recovery_point
        try:
            carry_out(hosted.log, effect, now_ms=self.wall_ms)
        except OSError as problem:
            self.fail(problem)
            raise
        if hosted.log.recovery_point < flushed:
            self.recovery_point_fell.set()
        if isinstance(effect, Append):
            self.traffic.bytes_replicated_in += sum(len(cast("Buffer", batch.data)) for batch in effect.batches)
        if hosted.future is not None:
            hosted.future.follow(effect)

    def _answer(self, answers: Iterable[Done[Key]]) -> None:
        for done in answers:
            answer = done.wait.reply_to
            assert isinstance(answer, asyncio.Future), answer
            if not answer.done():
                answer.set_result(done)
