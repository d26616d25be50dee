"""The tasks of the driver for a partition, in the order given: to its log, its waits, its fetcher, the controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset
from quorate.replication.proposals import Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A record batch as the leader sent it. `end_offset` is exclusive; `data` is the driver's handle on the bytes."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    data: object = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignEpoch:
    """The epoch cache gets this leader's epoch, though the log has no record of it yet (R13)."""

    epoch: Epoch
    start_offset: Offset


@dataclass(frozen=True, slots=True)
class Append:
    """The follower's log gets these batches, at the offsets that they have."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """The follower's log ends at `to`: records and epochs from there on go (R54)."""

    to: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAt:
    """The follower's log loses all its records. Its next offset becomes `leo`, its log start `start` (R55, R60)."""

    leo: Offset
    start: Offset


@dataclass(frozen=True, slots=True)
class RaiseLogStart:
    """The leader has deleted what is below `to`: so does the follower (R59)."""

    to: Offset


@dataclass(frozen=True, slots=True)
class HighWatermarkRaised:
    """The high watermark is this now: waits of producers, consumers and followers may be complete (R15, R20, R44)."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class LowWatermarkMoved:
    """A follower has reported another log start: DeleteRecords requests that wait for it may be complete (KIP-107)."""


@dataclass(frozen=True, slots=True)
class EndWaits:
    """The partition is not led here any more: the requests that wait for it end with this error (R16, R17)."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class StopFetching:
    """The fetcher leaves the partition alone: before anything else is done to its log (R17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFetching:
    """The fetcher of this leader takes the partition (R16)."""

    leader_id: NodeId
    leader_epoch: Epoch


@dataclass(frozen=True, slots=True)
class Propose:
    """The controller is to be asked for another ISR (R35)."""

    proposal: Proposal


Effect: TypeAlias = (
    AssignEpoch
    | Append
    | Truncate
    | RestartAt
    | RaiseLogStart
    | HighWatermarkRaised
    | LowWatermarkMoved
    | EndWaits
    | StopFetching
    | StartFetching
    | Propose
)
