"""The controller as brokers see it: one partition's registration, brokers' standings, and KRaft's rules between them.

It never fails: what may be lost are requests, answers, and time until a broker has applied its log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from quorate.errors import ErrorCode
from quorate.replication import Altered, BrokerStanding, PartitionRegistration, Proposal


@dataclass(frozen=True, slots=True)
class Standing:
    """An entry of the metadata log: a broker is so from here on."""

    broker: int
    standing: BrokerStanding


Entry = Standing | PartitionRegistration


@dataclass
class Controller:
    """The metadata log, and the state at its end. The ELR is KIP-966's: electable replicas while the ISR is short."""

    replicas: tuple[int, ...]
    min_isr: int
    log: list[Entry] = field(default_factory=list)
    standings: dict[int, BrokerStanding] = field(default_factory=dict)
    elr: frozenset[int] = frozenset()
    heard_at_ms: dict[int, int] = field(default_factory=dict)
    elections: int = 0
    failovers: int = 0
    unclean_epochs: tuple[int, ...] = ()
    """It elects nobody uncleanly."""

    def __post_init__(self) -> None:
        for broker in self.replicas:
            self._stand(broker, BrokerStanding(epoch=len(self.log) + 1))
            self.heard_at_ms[broker] = 0
        self.partition = PartitionRegistration(
            leader=self.replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            replicas=self.replicas,
            isr=frozenset(self.replicas),
        )
        self.log.append(self.partition)

    def _stand(self, broker: int, standing: BrokerStanding) -> None:
        self.standings[broker] = standing
        self.log.append(Standing(broker, standing))

    def register(self, broker: int, *, is_clean: bool, now_ms: int) -> int:
        """Another process of a broker: fenced, and after an unclean stop in no ISR or ELR. Returns its broker epoch."""
        self._stand(broker, BrokerStanding(epoch=len(self.log) + 1, is_fenced=True))
        self.heard_at_ms[broker] = now_ms
        self._remove(broker)
        if not is_clean:
            self.elr -= {broker}
        self._elect_if_needed()
        return self.standings[broker].epoch

    def has_applied(self, broker: int, applied: int) -> bool:
        """Whether a broker that has applied so much has applied its registration: its epoch is the offset after it."""
        return applied >= self.standings[broker].epoch

    def unfence(self, broker: int, epoch: int) -> None:
        """The broker has applied its own registration."""
        standing = self.standings[broker]
        if standing.epoch == epoch and standing.is_fenced:
            self._stand(broker, replace(standing, is_fenced=False))
            self._elect_if_needed()

    def fence_silent(self, now_ms: int, session_ms: int) -> None:
        """Fences the brokers that were not heard for so long."""
        for broker, heard_at_ms in self.heard_at_ms.items():
            standing = self.standings[broker]
            if now_ms - heard_at_ms > session_ms and not standing.is_fenced:
                self._stand(broker, replace(standing, is_fenced=True))
                self._remove(broker)
                self._elect_if_needed()

    def move_leader(self, broker: int) -> None:
        """An election that somebody asked for, in the ISR."""
        if broker in self.partition.isr and broker != self.partition.leader and not self.standings[broker].is_fenced:
            self._change(isr=self.partition.isr, leader=broker)

    def _remove(self, broker: int) -> None:
        partition = self.partition
        if broker in partition.isr or broker == partition.leader:
            self._change(isr=partition.isr - {broker}, leader=None if partition.leader == broker else partition.leader)

    def _elect_if_needed(self) -> None:
        """From the ISR, else from the ELR; nobody if all of them are fenced."""
        if self.partition.leader is not None:
            return
        for candidates in (self.partition.isr, self.elr):
            alive = sorted(broker for broker in candidates if not self.standings[broker].is_fenced)
            if alive:
                self.elections += 1
                chosen = alive[self.elections % len(alive)]
                self._change(isr=self.partition.isr or frozenset({chosen}), leader=chosen)
                return

    def _change(self, *, isr: frozenset[int], leader: int | None) -> None:
        before = self.partition
        moves = leader != before.leader
        self.elr = frozenset() if len(isr) >= self.min_isr else (before.isr | self.elr) - isr
        self.partition = replace(
            before,
            leader=leader,
            isr=isr,
            leader_epoch=before.leader_epoch + moves,
            partition_epoch=before.partition_epoch + 1,
        )
        self.log.append(self.partition)

    def alter(self, sender: int, broker_epoch: int, proposal: Proposal) -> Altered | ErrorCode:
        """AlterPartition, in the order of KRaft's checks; STALE_BROKER_EPOCH is of the request as a whole."""
        partition = self.partition
        if self.standings[sender].epoch != broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if partition.leader != sender or proposal.leader_epoch != partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in proposal.isr:
            standing = self.standings[member]
            if standing.is_fenced or epoch not in (-1, standing.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        self._change(isr=frozenset(member for member, _ in proposal.isr), leader=sender)
        return Altered(
            leader_epoch=self.partition.leader_epoch,
            partition_epoch=self.partition.partition_epoch,
            isr=self.partition.isr,
        )
