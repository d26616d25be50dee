"""One broker's replica, for a story: its log, the registered brokers, the time, and what its driver would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from quorate.replication import (
    BrokerStanding,
    Effect,
    FetchPosition,
    FollowerFetch,
    Following,
    Grant,
    Isolation,
    Leading,
    LowWatermarkMoved,
    Partition,
    PartitionRegistration,
    Proposal,
    Propose,
    ReplicationSettings,
    admit_follower,
    invariants,
)
from quorate.replication.following import LeaderAnswer
from tests.replication.memory_log import MemoryLog

LAG_MS = 30_000


@dataclass
class Scene:
    """Broker 1 of the brokers 1 to 4, whose broker epochs are 101 to 104."""

    log: MemoryLog = field(default_factory=MemoryLog)
    min_insync_replicas: int = 1
    checkpoint: int = 0
    now_ms: int = 1_000_000
    brokers: dict[int, BrokerStanding] = field(
        default_factory=lambda: {broker: BrokerStanding(epoch=100 + broker) for broker in (1, 2, 3, 4)}
    )
    partition: Partition = field(init=False)

    def __post_init__(self) -> None:
        self.partition = Partition(
            broker_id=1,
            log=self.log,
            checkpoint=self.checkpoint,
            brokers=self.brokers,
            settings=ReplicationSettings(replica_lag_time_max_ms=LAG_MS),
            min_insync_replicas=self.min_insync_replicas,
        )

    @property
    def leading(self) -> Leading:
        assert isinstance(self.partition.role, Leading), self.partition.role
        return self.partition.role

    @property
    def following(self) -> Following:
        assert isinstance(self.partition.role, Following), self.partition.role
        return self.partition.role

    @property
    def high_watermark(self) -> int:
        return self.partition.local.high_watermark

    def done(self, effects: list[Effect]) -> list[Effect]:
        """Carries them out in the log, and checks what must hold after each step."""
        for effect in effects:
            self.log.carry_out(effect)
        invariants.check(self.partition)
        return effects

    def register(
        self,
        *,
        leader: int | None = 1,
        epoch: int = 5,
        at: int = 10,
        replicas: tuple[int, ...] = (1, 2, 3),
        isr: Iterable[int] = (1, 2, 3),
        is_recovering: bool = False,
        min_isr: int | None = None,
    ) -> list[Effect]:
        """The metadata log has the partition so, at partition epoch `at`, and another min.insync.replicas."""
        registration = PartitionRegistration(
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=at,
            replicas=replicas,
            isr=frozenset(isr),
            is_recovering=is_recovering,
        )
        return self.done(self.partition.apply(registration, min_insync_replicas=min_isr, now_ms=self.now_ms))

    def write(self, count: int = 1) -> list[Effect]:
        """The leader appends a batch of so many records."""
        self.log.write(b"", epoch=self.leading.leader_epoch, count=count)
        return self.done(self.leading.advance(self.now_ms))

    def fetch(
        self, replica: int, offset: int, *, after_ms: int = 0, broker_epoch: int | None = None, last_epoch: int = -1
    ) -> list[Effect]:
        """A follower fetches, so long after what was before; what is due, but for the word of its log start."""
        effects = self.ask(replica, offset, after_ms=after_ms, broker_epoch=broker_epoch, last_epoch=last_epoch)[1]
        return [each for each in effects if not isinstance(each, LowWatermarkMoved)]

    def ask(
        self,
        replica: int,
        offset: int,
        *,
        after_ms: int = 0,
        broker_epoch: int | None = None,
        last_epoch: int = -1,
        log_start: int = 0,
    ) -> tuple[Grant, list[Effect]]:
        self.now_ms += after_ms
        grant, effects = admit_follower(
            self.partition,
            FetchPosition(
                offset=offset,
                leader_epoch=self.partition.leader_epoch,
                last_fetched_epoch=last_epoch,
                isolation=Isolation.LOG_END,
            ),
            FollowerFetch(
                replica_id=replica,
                broker_epoch=100 + replica if broker_epoch is None else broker_epoch,
                log_start=log_start,
            ),
            now_ms=self.now_ms,
        )
        return grant, self.done(effects)

    def hear(self, answer: LeaderAnswer) -> list[Effect]:
        """The leader answers what this follower asks for."""
        request = self.following.next_request(self.now_ms)
        assert request is not None
        return self.done(self.following.take(request, answer, now_ms=self.now_ms))


def proposal_in(effects: list[Effect]) -> Proposal:
    """What the controller is asked for; there is one."""
    (proposal,) = (effect.proposal for effect in effects if isinstance(effect, Propose))
    return proposal


def members(proposal: Proposal) -> list[int]:
    """Its ISR."""
    return [member for member, _ in proposal.isr]
