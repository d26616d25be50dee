"""A partition at a follower: fetch, append or truncate, fetch again (KIP-101, KIP-279, KIP-595's fetch).

The driver asks `next_request` for what to send to the leader, and gives the answer to `take`. A fetch is at the log's
end and names the epoch of the record before it, so its answer is either the next batches, or where the logs part.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, assert_never

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, OffsetAndEpoch
from quorate.replication.divergence import truncation_for
from quorate.replication.effects import (
    Append,
    Batch,
    Effect,
    HighWatermarkRaised,
    RaiseLogStart,
    RestartAt,
    Truncate,
)
from quorate.replication.local_replica import LocalReplica
from quorate.replication.settings import ReplicationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAt:
    """One partition's part of a follower's Fetch (R58); the driver adds the broker's id and epoch."""

    offset: Offset
    last_fetched_epoch: Epoch
    leader_epoch: Epoch
    log_start: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRange:
    """ListOffsets for the leader's earliest and latest offset: the fetch was out of its range (R60)."""

    leader_epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Batches from the fetch offset on, perhaps none, and the leader's high watermark and log start."""

    batches: tuple[Batch, ...]
    high_watermark: Offset
    log_start: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """The follower's log goes on otherwise than the leader's, which has `end` instead (R53).

    `end` is the leader's largest epoch up to the follower's last one, and the offset at which it ends (exclusive).
    """

    end: OffsetAndEpoch
    log_start: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The leader's log start and log end (exclusive)."""

    start: Offset
    leo: Offset


@dataclass(frozen=True, slots=True)
class Refused:
    """The leader refused this partition, or could not be reached (NETWORK_EXCEPTION).

    Or the driver refuses what it has sent: then there is a `reason`.
    """

    error: ErrorCode
    reason: str = ""


FollowerRequest: TypeAlias = FetchAt | AskRange
LeaderAnswer: TypeAlias = Fetched | Diverged | Range | Refused


EARLY: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The answers of a leader that is behind in the metadata log: by milliseconds as a rule."""


class Phase(Enum):
    """The kind of request that the follower sends its leader."""

    FETCHING = "fetching"
    FINDING_RANGE = "finding range"
    FAILED = "failed"
    """Nothing more until the metadata log gives another leader epoch."""


@dataclass(slots=True, kw_only=True)
class Following:
    """A follower's state under one leader, in one leader epoch: it says what to ask for, and what an answer does."""

    local: LocalReplica
    settings: ReplicationSettings
    leader_id: NodeId
    leader_epoch: Epoch
    phase: Phase = Phase.FETCHING
    resume_at_ms: int = 0
    """Nothing is asked for before this time."""
    failure: str = ""
    """Why it is FAILED, or what was wrong with the leader's last batches, which are fetched again."""
    is_fenced: bool = False
    """Whether that is no fault: the leader has heard of its epoch before this broker."""
    asked: FetchAt | None = None
    """The last fetch, which stays the same while the log does."""
    early_backoff_ms: int = 0
    """The last wait for a leader that had not heard of the partition or of its epoch yet; 0 once it has answered."""
    lag: Offset = 0
    """How far its log end was behind the leader's high watermark, as the last answer had it (R68)."""

    def next_request(self, now_ms: int) -> FollowerRequest | None:
        """Returns what to ask the leader for at `now_ms` (monotonic clock); None while it backs off or has failed.

        The same FetchAt is returned while the log is as it was. Nothing is noted as sent.
        """
        if self.phase is Phase.FAILED or now_ms < self.resume_at_ms:
            return None
        if self.phase is Phase.FINDING_RANGE:
            return AskRange(leader_epoch=self.leader_epoch)
        if (asked := self.asked) is None or not self._is_as_asked(asked):
            log = self.local.log
            asked = self.asked = FetchAt(
                offset=log.leo,
                last_fetched_epoch=log.epochs.last_epoch,
                leader_epoch=self.leader_epoch,
                log_start=log.start,
            )
        return asked

    def _is_as_asked(self, asked: FetchAt) -> bool:
        log = self.local.log
        return (
            asked.offset == log.leo
            and asked.log_start == log.start
            and asked.last_fetched_epoch == log.epochs.last_epoch
        )

    def has_taken(self, high_watermark: Offset, log_start: Offset) -> bool:
        """Returns whether an answer without records, and with these bounds, would change nothing."""
        local = self.local
        return min(local.log.leo, high_watermark) <= local.high_watermark and (
            min(log_start, local.high_watermark) <= local.log.start
        )

    def take(self, request: FollowerRequest, answer: LeaderAnswer, *, now_ms: int) -> list[Effect]:
        """Takes the leader's answer; returns what is to be done to the log. `now_ms` is of the monotonic clock.

        An answer to a request that this follower would not send now changes nothing (R59). The high watermark moves at
        once; a refusal has the follower back off, ask for the leader's range, or fail.
        """
        expected = self.next_request(now_ms)
        if request is not expected and request != expected:
            return []
        self.failure = ""
        if not isinstance(answer, Refused):
            self.early_backoff_ms = 0
        match answer:
            case Fetched():
                return self._take_batches(answer)
            case Diverged():
                return self._take_divergence(answer)
            case Range():
                return self._take_range(answer, now_ms)
            case Refused(error, reason):
                return self._take_refusal(error, reason, now_ms)
        assert_never(answer)

    # Data

    def _take_batches(self, answer: Fetched) -> list[Effect]:
        """Appends, and takes the leader's high watermark and log start (R59)."""
        log, batches = self.local.log, answer.batches
        fault = self._fault_in(batches)
        if fault:
            return self._fail(fault)
        effects: list[Effect] = []
        start, leo = log.start, log.leo
        if batches and batches[0].base_offset < leo:
            # The leader's log may start within a batch (DeleteRecords); the batch comes whole, into an empty log.
            effects.append(RestartAt(leo=batches[0].base_offset, start=start))
        if batches:
            effects.append(Append(batches))
            leo = batches[-1].end_offset
        self.lag = max(answer.high_watermark - leo, 0)
        return [*effects, *self._take_bounds(answer, start=start, leo=leo)]

    def _take_bounds(self, answer: Fetched, *, start: Offset, leo: Offset) -> list[Effect]:
        """Takes the leader's high watermark, then its log start, as far as this log goes.

        The high watermark rises only. A new leader's may trail; what this follower knows as committed stays so. Kafka's
        follower takes the lower one.
        """
        effects: list[Effect] = []
        if self.local.raise_to(min(leo, answer.high_watermark), leo=leo):
            effects.append(HighWatermarkRaised(self.local.high_watermark))
        # Below the leader's log start everything was committed once; a follower's log may not end before it.
        log_start = min(answer.log_start, self.local.high_watermark)
        if log_start > start:
            effects.append(RaiseLogStart(log_start))
        return effects

    def _fault_in(self, batches: tuple[Batch, ...]) -> str:
        """Returns what is wrong with the leader's batches; empty if nothing is. The leader's fault is no assertion."""
        log = self.local.log
        end, epoch = log.leo, log.epochs.last_epoch
        if batches and log.leo == log.start and batches[0].base_offset < log.leo < batches[0].end_offset:
            end = batches[0].base_offset
        for batch in batches:
            if batch.base_offset < end or batch.end_offset <= batch.base_offset:
                return f"a batch has offsets {batch.base_offset} to {batch.end_offset}, and the log ends at {end}"
            if not epoch <= batch.epoch <= self.leader_epoch:
                return f"a batch has epoch {batch.epoch}, after {epoch}, of a leader of epoch {self.leader_epoch}"
            end, epoch = batch.end_offset, batch.epoch
        return ""

    # Truncation

    def _take_divergence(self, answer: Diverged) -> list[Effect]:
        """Cuts the log where it may part from the leader's (R54), or starts afresh if that is below its start (R55)."""
        log = self.local.log
        to = truncation_for(log, answer.end)
        if to < log.start:
            return self._restart_at(answer.log_start)
        if to == log.leo > log.start and log.epochs.entries[-1][1] < log.leo:
            return self._fail(f"the leader's epoch {answer.end.epoch} ends at {answer.end.offset}: nothing to truncate")
        return self._cut(to)

    def _cut(self, to: Offset) -> list[Effect]:
        """Truncates. At the log's end that still removes an epoch that this broker has led without a record (R54)."""
        log = self.local.log
        assert log.start <= to <= log.leo, (log.start, to, log.leo)
        if to == log.start:  # without records no epoch is left to be asked about
            return self._restart_at(to)
        # Below the high watermark only after an unclean election, which has lost what was committed (R55).
        self.local.lower_to(to)
        return [Truncate(to)]

    def _restart_at(self, offset: Offset) -> list[Effect]:
        self.local.high_watermark = offset
        return [RestartAt(leo=offset, start=offset)]

    def _take_range(self, answer: Range, now_ms: int) -> list[Effect]:
        """Finds a place to fetch from after OFFSET_OUT_OF_RANGE (R60).

        A leader that ends earlier was elected uncleanly. One that starts later has deleted what this log lacks.
        """
        log = self.local.log
        self.phase = Phase.FETCHING
        if answer.leo < log.start or answer.start > log.leo:
            return self._restart_at(answer.start)
        if answer.leo < log.leo:
            return self._cut(answer.leo)
        self.resume_at_ms = now_ms + self.settings.fetch_backoff_ms  # in range again
        return []

    # Errors

    def append_failed(self, append: Append, why: str, *, now_ms: int) -> list[Effect]:
        """Takes back what was decided with an append of which the log has refused a batch; it has the batches before.

        The others are fetched again after a while, as after a CorruptRecordException in Kafka: the next copy may be
        whole. Returns the high watermark that is left.
        """
        leo = self.local.log.leo
        self.lag += append.batches[-1].end_offset - leo
        self.local.lower_to(leo)
        self._back_off(why, now_ms)
        return [HighWatermarkRaised(self.local.high_watermark)]

    def _take_refusal(self, error: ErrorCode, reason: str, now_ms: int) -> list[Effect]:
        """Backs off, or waits for the metadata log (R60)."""
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self.is_fenced = True
            return self._fail(f"the leader has a later epoch than {self.leader_epoch}")
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and self.phase is Phase.FETCHING:
            self.phase = Phase.FINDING_RANGE
            return []
        self._back_off(reason, now_ms)
        if error in EARLY:
            self.early_backoff_ms = self._next_early_backoff_ms()
            self.resume_at_ms = now_ms + self.early_backoff_ms
        return []

    def _next_early_backoff_ms(self) -> int:
        """Returns how long to wait for a leader that is behind in the metadata log. Kafka's follower waits as ever."""
        longer_ms = max(self.settings.first_fetch_backoff_ms, 2 * self.early_backoff_ms)
        return min(longer_ms, self.settings.fetch_backoff_ms)

    def _back_off(self, why: str, now_ms: int) -> None:
        self.failure, self.resume_at_ms = why, now_ms + self.settings.fetch_backoff_ms

    def _fail(self, why: str) -> list[Effect]:
        self.phase, self.failure = Phase.FAILED, why
        return []
