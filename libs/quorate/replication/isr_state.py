"""The ISR of a partition at its leader: as the controller has it, or with a change that is under way (KIP-497).

While a change is under way the leader does not know which ISR the controller has: the old or the new one. From either
a leader may be elected. So the high watermark waits for the members of both, which is the *maximal ISR*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from quorate.nouns import NodeId

Isr: TypeAlias = frozenset[NodeId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The ISR of the metadata log, or of the controller's last answer, at a partition epoch.

    `is_recovering`: the leader was elected uncleanly, and its recovery is not reported yet (KIP-704).
    """

    isr: Isr
    partition_epoch: int
    is_recovering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExpand:
    """The controller is asked to let one replica join the ISR."""

    committed: Committed
    joining: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingShrink:
    """The controller is asked to remove replicas that are out of sync from the ISR."""

    committed: Committed
    leaving: Isr


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRecovery:
    """The leader has recovered from an unclean election, and tells the controller; the ISR stays (R65). KIP-704."""

    committed: Committed


Pending: TypeAlias = PendingExpand | PendingShrink | PendingRecovery
IsrState: TypeAlias = Committed | Pending
"""At most one change is in flight (R33)."""


def committed_of(state: IsrState) -> Committed:
    """Returns the ISR that the controller is known to have; without a change that is under way."""
    return state if isinstance(state, Committed) else state.committed


def proposed_isr(state: Pending) -> Isr:
    """Returns the ISR that the controller is asked for."""
    match state:
        case PendingExpand(committed=committed, joining=joining):
            return committed.isr | {joining}
        case PendingShrink(committed=committed, leaving=leaving):
            return committed.isr - leaving
        case PendingRecovery(committed=committed):
            return committed.isr
    assert_never(state)


def maximal_isr(state: IsrState) -> Isr:
    """Returns all that may be in the controller's ISR, which the high watermark must wait for (R34).

    A joining replica counts at once, a leaving one until the controller has confirmed.

    >>> now = Committed(isr=frozenset({1, 2}), partition_epoch=7)
    >>> sorted(maximal_isr(PendingExpand(committed=now, joining=3)))
    [1, 2, 3]
    >>> sorted(maximal_isr(PendingShrink(committed=now, leaving=frozenset({2}))))
    [1, 2]
    """
    if isinstance(state, Committed):
        return state.isr
    return state.committed.isr | proposed_isr(state)
