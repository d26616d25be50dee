"""A partition at its leader: the progress of its replicas, its ISR, its high watermark (KIP-497, KIP-841, KIP-903).

Inputs are the log's registration, appends of its own, followers' fetches, the periodic check, and the controller's
answers. Each returns effects. Whether produce and fetch requests are taken is in `admission.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, Offset
from quorate.replication.effects import Effect, HighWatermarkRaised, LowWatermarkMoved, Propose
from quorate.replication.high_watermark import committed_end, effective_min_isr
from quorate.replication.isr_state import (
    Committed,
    Isr,
    IsrState,
    Pending,
    PendingExpand,
    PendingRecovery,
    PendingShrink,
    committed_of,
    maximal_isr,
    proposed_isr,
)
from quorate.replication.local_replica import LocalReplica
from quorate.replication.progress import NO_BROKER_EPOCH, Progress
from quorate.replication.proposals import NOT_APPLIED, UNKNOWN_OUTCOME, Altered, Proposal
from quorate.replication.registration import Brokers, PartitionRegistration, is_eligible
from quorate.replication.settings import ReplicationSettings

NO_OFFSET: Final = -1


@dataclass(slots=True)
class IsrCounts:
    """The counts of the broker's meters: IsrExpandsPerSec, IsrShrinksPerSec, FailedIsrUpdatesPerSec (R68)."""

    expands: int = 0
    shrinks: int = 0
    failed_updates: int = 0


@dataclass(slots=True, kw_only=True)
class Leading:
    """A leader's state in one leader epoch: its replicas' progress, the ISR, and the decisions about both, as effects.

    The ISR's state is at `partition_epoch` while committed; a pending change keeps what it would fall back to.
    """

    local: LocalReplica
    brokers: Brokers
    settings: ReplicationSettings
    registration: PartitionRegistration
    min_insync_replicas: int
    epoch_start_offset: Offset
    state: IsrState
    replicas: dict[NodeId, Progress]
    """The progress of each remote replica."""
    proposal: Proposal | None = None
    """The last proposal to the controller; the answer to another proposal is dropped."""
    counts: IsrCounts = field(default_factory=IsrCounts)

    @property
    def leader_epoch(self) -> int:
        """The epoch that this broker leads."""
        return self.registration.leader_epoch

    @property
    def partition_epoch(self) -> int:
        """The partition epoch of the committed ISR."""
        return committed_of(self.state).partition_epoch

    @property
    def min_isr(self) -> int:
        """How many members the ISR must have for writes with acks=all, and for the high watermark (R25)."""
        return effective_min_isr(self.min_insync_replicas, len(self.registration.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR is smaller than `min_isr`: a pending member has not joined yet (R34, R43)."""
        return len(committed_of(self.state).isr) < self.min_isr

    # From the log

    def take_registration(self, registration: PartitionRegistration, *, now_ms: int) -> list[Effect]:
        """Takes the partition as the metadata log has it now, in the leader epoch that this broker leads (R14, R40).

        It overrides a pending change: an answer that comes after it is dropped. A registration that the leader has from
        the controller's answer already says nothing more, and must not undo a change that was proposed since. Returns
        effects: the high watermark may rise, a recovery is reported.
        """
        assert registration.leader_epoch == self.leader_epoch, (registration, self.registration)
        self._note_assignment(registration)
        if registration.partition_epoch > self.partition_epoch:
            self.state = committed_in(registration)
        return [*self.report_recovery(), *self.advance(now_ms)]

    def _note_assignment(self, registration: PartitionRegistration) -> None:
        """Tracks exactly the assigned replicas; those that stay keep their progress."""
        self.registration = registration
        self.replicas = {
            replica: self.replicas.get(replica, Progress())
            for replica in registration.replicas
            if replica != self.local.broker_id
        }

    # The high watermark

    def advance(self, now_ms: int) -> list[Effect]:
        """Raises the high watermark as far as the maximal ISR has the log; returns that as an effect, if so (R21–R23).

        After an append (R44), a follower's fetch, a change of the ISR, and at the start of an epoch. Below `min_isr` it
        stands still.
        """
        # Below min ISR it stands still, so that a replica of the ELR has all that was committed (R21, R67; KIP-966).
        if self.is_under_min_isr:
            return []
        end = committed_end(self.local.log.leo, self._awaited(now_ms))
        if end is None or not self.local.raise_to(end, leo=self.local.log.leo):
            return []
        return [HighWatermarkRaised(self.local.high_watermark)]

    def _awaited(self, now_ms: int) -> Iterable[Offset | None]:
        """Yields the log ends that the high watermark waits for."""
        members = maximal_isr(self.state)
        if members - self.replicas.keys() - {self.local.broker_id}:
            yield None  # a member that is not assigned here: nothing is known of its log
        for replica, progress in self.replicas.items():
            if replica in members or self._is_about_to_join(replica, progress, now_ms):
                yield progress.leo

    def _is_about_to_join(self, replica: NodeId, progress: Progress, now_ms: int) -> bool:
        """Returns whether the high watermark waits for a replica outside the ISR (R22).

        It would else run ahead of a replica that keeps up at a distance of one fetch, which then never joins. Before
        its first fetch nobody waits for it.
        """
        return self._is_caught_up(progress, now_ms) and is_eligible(self.brokers, replica, progress)

    def _is_caught_up(self, progress: Progress, now_ms: int) -> bool:
        return progress.is_caught_up(
            leader_leo=self.local.log.leo, now_ms=now_ms, lag_time_max_ms=self.settings.replica_lag_time_max_ms
        )

    # The ISR

    def note_fetch(
        self, replica: NodeId, *, offset: Offset, log_start: Offset, broker_epoch: int, now_ms: int
    ) -> list[Effect]:
        """Records that a follower has all below `offset`, by a fetch that was admitted and does not diverge (R19, R20).

        Returns effects: the low watermark has moved, the follower is proposed for the ISR, the high watermark has
        risen. Whether it may join is decided in the step that proposes it, so nothing can change in between (R28).
        """
        progress = self.replicas[replica]
        moved = [LowWatermarkMoved()] if progress.log_start != log_start else []
        progress.record_fetch(
            offset=offset,
            log_start=log_start,
            leader_leo=self.local.log.leo,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        expansion = self._expand(replica) if self.may_expand(replica) else []
        if self.local.high_watermark == self.local.log.leo:
            return [*moved, *expansion]
        return [*moved, *expansion, *self.advance(now_ms)]

    def rests(self, replica: NodeId) -> bool:
        """Returns whether another fetch of this member, as its last one, would change nothing but when it was (R19).

        It has all, and all is committed, so nobody waits for it. Until something happens to the partition, its fetches
        may be counted later, by the last of them (`Progress.repeat_fetch`).
        """
        is_at_end = self.replicas[replica].leo == self.local.log.leo == self.local.high_watermark
        return is_at_end and replica in committed_of(self.state).isr

    def low_watermark(self) -> Offset:
        """Returns the smallest log start of this leader and of replicas that are not fenced; -1 if one is not known.

        Below it the records are deleted everywhere, as far as somebody could read them (KIP-107).
        """
        starts = [self.local.log.start]
        for replica, progress in self.replicas.items():
            standing = self.brokers.get(replica)
            if standing is not None and not standing.is_fenced:
                starts.append(NO_OFFSET if progress.log_start is None else progress.log_start)
        return min(starts)

    def may_expand(self, replica: NodeId) -> bool:
        """Returns whether the controller may be asked to add this replica to the ISR (R27, R66)."""
        progress, state = self.replicas[replica], self.state
        if not isinstance(state, Committed) or state.is_recovering or replica in state.isr:
            return False
        # The start of the epoch, too: a new leader's high watermark may trail what its predecessor had committed, and
        # all of that lies below the start (KAFKA-7128).
        needed = max(self.local.high_watermark, self.epoch_start_offset)
        return progress.leo is not None and progress.leo >= needed and is_eligible(self.brokers, replica, progress)

    def _expand(self, replica: NodeId) -> list[Effect]:
        assert isinstance(self.state, Committed), self.state  # R33
        return self._propose(PendingExpand(committed=self.state, joining=replica))

    def check_isr(self, now_ms: int) -> list[Effect]:
        """Proposes, as an effect, an ISR without the members that are out of sync (R29, R30); `isr_check_interval_ms`.

        Nothing while a change is pending. A leader that recovers reports that instead. A fenced or stopping broker is
        removed by the controller itself (R32).
        """
        if not isinstance(self.state, Committed):
            return []
        if self.state.is_recovering:
            return self.report_recovery()
        leaving = self.out_of_sync(now_ms)
        return self._propose(PendingShrink(committed=self.state, leaving=leaving)) if leaving else []

    def out_of_sync(self, now_ms: int) -> Isr:
        """Returns the members of the committed ISR that were not at the leader's end for `replica.lag.time.max.ms`."""
        return frozenset(
            member
            for member in committed_of(self.state).isr - {self.local.broker_id}
            if member not in self.replicas or not self._is_caught_up(self.replicas[member], now_ms)
        )

    def report_recovery(self) -> list[Effect]:
        """Tells the controller, by an effect, that a leader which was elected uncleanly serves its log as it is (R65).

        Nothing unless the ISR is recovering and no change is pending. KIP-704.
        """
        if not isinstance(self.state, Committed) or not self.state.is_recovering:
            return []
        assert self.state.isr == {self.local.broker_id}, self.state  # R66
        return self._propose(PendingRecovery(committed=self.state))

    def _propose(self, state: Pending) -> list[Effect]:
        assert self.local.broker_id in proposed_isr(state), state  # a leader never leaves by its own proposal
        self.state = state
        self.proposal = Proposal(  # R35
            leader_epoch=self.leader_epoch,
            partition_epoch=state.committed.partition_epoch,
            isr=tuple((member, self._broker_epoch(member)) for member in sorted(proposed_isr(state))),
        )
        return [Propose(self.proposal)]

    def _broker_epoch(self, member: NodeId) -> int:
        if member == self.local.broker_id:
            standing = self.brokers.get(member)
            return NO_BROKER_EPOCH if standing is None else standing.epoch
        progress = self.replicas.get(member)
        known = None if progress is None else progress.broker_epoch
        return NO_BROKER_EPOCH if known is None else known

    # Answers of the controller

    def take_altered(self, proposal: Proposal, answer: Altered | ErrorCode, *, now_ms: int) -> list[Effect]:
        """Takes the controller's answer to a proposal (R37–R40); one to a proposal that is not pending changes nothing.

        Returns effects: the high watermark may rise. After an error of `NOT_APPLIED` the committed ISR is back, after
        one of `UNKNOWN_OUTCOME` the proposal stays pending, after any other it is sent again.
        """
        state = self.state
        if isinstance(state, Committed) or proposal != self.proposal:
            return []
        if isinstance(answer, ErrorCode):
            return self._take_refusal(state, proposal, answer, now_ms)
        # An equal partition epoch would be the controller's word that its ISR is the proposed one already.
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            self.counts.failed_updates += 1
            return []
        self.state = Committed(
            isr=answer.isr, partition_epoch=answer.partition_epoch, is_recovering=answer.is_recovering
        )
        self.counts.expands += isinstance(state, PendingExpand)
        self.counts.shrinks += isinstance(state, PendingShrink)
        return self.advance(now_ms)

    def _take_refusal(self, state: Pending, proposal: Proposal, error: ErrorCode, now_ms: int) -> list[Effect]:
        self.counts.failed_updates += 1
        if error in NOT_APPLIED:
            self.state = state.committed
            return self.advance(now_ms)
        # The maximal ISR stays, and the high watermark with it. So a leader that was deposed and has not heard
        # of it cannot commit alone, but where it was alone in the ISR and min ISR is 1 (R62).
        if error in UNKNOWN_OUTCOME:
            return []
        return [Propose(proposal)]  # a leader has no other way to be sure


def committed_in(registration: PartitionRegistration) -> Committed:
    """Returns the ISR state that the metadata log has."""
    return Committed(
        isr=registration.isr,
        partition_epoch=registration.partition_epoch,
        is_recovering=registration.is_recovering,
    )
