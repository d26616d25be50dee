"""A leader's proposals to the controller in AlterPartition, and the answers (KIP-497, KIP-704, KIP-903)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Another ISR, or the report of a recovery, on top of a leader epoch and a partition epoch (R35).

    `isr` has each member with the broker epoch of its last fetch, in the order of their ids. The recovery state is
    always RECOVERED: a leader that is recovering proposes nothing else (R66).
    """

    leader_epoch: Epoch
    partition_epoch: int
    isr: tuple[tuple[NodeId, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """The controller's answer without an error: the partition as it is now."""

    leader_epoch: Epoch
    partition_epoch: int
    isr: frozenset[NodeId]
    is_recovering: bool = False


NOT_APPLIED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller has compared the partition epoch and refused: it did not make this change, and no controller will.
The leader goes back to the committed ISR."""

UNKNOWN_OUTCOME: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The partition is another one than this leader thinks. The change may even have been made: an answer was lost, and the
repeated proposal then meets its own effect as INVALID_UPDATE_VERSION. So the pending ISR stays until the log tells."""
