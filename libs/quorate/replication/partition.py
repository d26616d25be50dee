"""One partition at a broker: which role the metadata log gives this broker, and the change from one to the next.

There is no LeaderAndIsr request: a broker that applies the metadata log tells each partition its latest registration
(R4). Registrations of one partition come in the order of their partition epochs, or again.
"""

from __future__ import annotations

from typing import TypeAlias

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset
from quorate.replication.effects import (
    AssignEpoch,
    Effect,
    EndWaits,
    StartFetching,
    StopFetching,
)
from quorate.replication.following import Following
from quorate.replication.leading import IsrCounts, Leading, committed_in
from quorate.replication.local_replica import LocalReplica
from quorate.replication.log import Log
from quorate.replication.progress import Progress
from quorate.replication.registration import Brokers, PartitionRegistration
from quorate.replication.settings import ReplicationSettings

Role: TypeAlias = Leading | Following | None
"""None: no leader is known, or this broker has not heard of the partition yet."""

NO_EPOCH_YET = -1


class Partition:
    """One broker's replica of a partition, as leader, follower or none. Only `apply` and `stop` change its role."""

    def __init__(
        self,
        *,
        broker_id: NodeId,
        log: Log,
        checkpoint: Offset,
        brokers: Brokers,
        settings: ReplicationSettings,
        min_insync_replicas: int = 1,
        counts: IsrCounts | None = None,
    ) -> None:
        """`counts` are those of all the broker's partitions, which outlive each epoch (R68)."""
        self.local = LocalReplica(broker_id=broker_id, log=log, checkpoint=checkpoint)
        self.brokers = brokers
        self.settings = settings
        self.role: Role = None
        self.leader_epoch: Epoch = NO_EPOCH_YET
        self._partition_epoch = NO_EPOCH_YET
        self._min_insync_replicas = min_insync_replicas
        self._counts = IsrCounts() if counts is None else counts

    @property
    def partition_epoch(self) -> int:
        """The latest partition epoch that this broker knows: of the log, or as leader of the controller's answer."""
        known = self.role.partition_epoch if isinstance(self.role, Leading) else NO_EPOCH_YET
        return max(self._partition_epoch, known)

    def apply(
        self, registration: PartitionRegistration, *, min_insync_replicas: int | None = None, now_ms: int
    ) -> list[Effect]:
        """Takes the partition as the metadata log has it, which may change its role; returns the effects (R11–R16).

        One of an older epoch leaves role and ISR as they are. `min_insync_replicas` is as before if it is None. Both
        are taken at once: by the `min.insync.replicas` of now and the ISR of before a leader would commit what no state
        of the log has it commit, be it that it is deposed already, or that the ISR has shrunk (R24).
        """
        assert self.local.broker_id in registration.replicas, (self.local.broker_id, registration)
        if min_insync_replicas is not None:
            self._min_insync_replicas = min_insync_replicas
            if isinstance(self.role, Leading):
                self.role.min_insync_replicas = min_insync_replicas
        if registration.partition_epoch < self.partition_epoch or registration.leader_epoch < self.leader_epoch:
            # The controller's answer was quicker than the log (R11).
            return self.role.advance(now_ms) if isinstance(self.role, Leading) else []
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        self.leader_epoch = registration.leader_epoch
        self._partition_epoch = registration.partition_epoch
        if registration.leader == self.local.broker_id:
            if isinstance(self.role, Leading) and not is_new_epoch:
                return self.role.take_registration(registration, now_ms=now_ms)
            return self._become_leader(registration, now_ms)
        if isinstance(self.role, Following) and not is_new_epoch and self.role.leader_id == registration.leader:
            return []
        return self._become_follower(registration.leader)

    def stop(self) -> list[Effect]:
        """Gives up the partition's role, as it is deleted or moved to other brokers; returns the effects (R17)."""
        return self._leave_role()

    def _become_leader(self, registration: PartitionRegistration, now_ms: int) -> list[Effect]:
        """Starts to lead an epoch (R12, R13, R15).

        All that was known of the replicas' logs is forgotten: they may have followed another leader in between. A
        member of the ISR has the lag time to show up.
        """
        leaving = [] if isinstance(self.role, Leading) else self._leave_role()
        start_offset = self.local.log.leo
        role = Leading(
            local=self.local,
            brokers=self.brokers,
            settings=self.settings,
            registration=registration,
            min_insync_replicas=self._min_insync_replicas,
            epoch_start_offset=start_offset,
            state=committed_in(registration),
            replicas={
                replica: Progress(last_caught_up_at_ms=now_ms if replica in registration.isr else None)
                for replica in registration.replicas
                if replica != self.local.broker_id
            },
            counts=self._counts,
        )
        self.role = role
        # Even without a record of it, the epoch is above any that a follower asks about (R13; KIP-101).
        assign = AssignEpoch(epoch=registration.leader_epoch, start_offset=start_offset)
        return [*leaving, assign, *role.report_recovery(), *role.advance(now_ms)]

    def _become_follower(self, leader: NodeId | None) -> list[Effect]:
        """Starts to follow a leader, if one is known (R16). A pending change of the ISR goes with the leader's role."""
        leaving = self._leave_role()
        if leader is None:
            return leaving
        self.role = Following(
            local=self.local, settings=self.settings, leader_id=leader, leader_epoch=self.leader_epoch
        )
        return [*leaving, StartFetching(leader_id=leader, leader_epoch=self.leader_epoch)]

    def _leave_role(self) -> list[Effect]:
        role, self.role = self.role, None
        if isinstance(role, Leading):
            return [EndWaits(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        return [] if role is None else [StopFetching()]
