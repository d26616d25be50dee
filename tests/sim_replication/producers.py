"""Producers with an id, as Kafka's clients are: up to five batches in flight, sent again until they are answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quorate.errors import ErrorCode
from tests.sim.invariants.base import Violation
from tests.sim_replication.coordinator import Coordinator
from tests.sim_replication.sent import Kind, Sent

if TYPE_CHECKING:
    from tests.sim_replication.producer_broker import Answer
    from tests.sim_replication.producer_world import ProducerWorld

IN_FLIGHT_MAX = 5
FATAL = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)


@dataclass(eq=False)
class Pending:
    """A batch that is not answered for good. `asked` is the broker that has it."""

    sent: Sent
    asked: int = 0
    was_first: bool = False


@dataclass(eq=False)
class Producer:
    """One producer id. `bumps_epochs`: each transaction has an epoch of its own (transaction.version 2)."""

    world: ProducerWorld
    id: int
    is_transactional: bool
    bumps_epochs: bool
    epoch: int = 0
    next_sequence: int = 0
    queue: list[Pending] = field(default_factory=list)
    leader: int = 1
    acked: set[int] = field(default_factory=set)
    has_failed: bool = False
    """Of the present transaction: a batch is lost, or nobody knows; it can only be aborted."""

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(self.world, self)

    @property
    def is_done(self) -> bool:
        return not self.queue and not self.coordinator.is_busy

    def act(self) -> None:
        """One more batch, the end of a transaction, or what was not answered once more."""
        chance, transaction = self.world.chance, self.coordinator
        if self.is_transactional and transaction.is_open and self._ends():
            transaction.end(Kind.ABORT if self.has_failed or self.queue or chance.random() < 0.3 else Kind.COMMIT)
            return
        if not self.world.is_calm and not transaction.is_ending and len(self.queue) < self.world.in_flight_max:
            if self.is_transactional and not transaction.is_open:
                if chance.random() < 0.8:
                    return  # what comes late comes between two transactions, too
                transaction.begin()
            if not self.has_failed and not (self.is_transactional and transaction.is_full):
                self._create()
        for at, pending in enumerate(self.queue):
            if not pending.asked:
                self._send(pending, is_first=not at)

    def _ends(self) -> bool:
        """A transaction is committed when all is answered; it is aborted at any time."""
        if self.has_failed or self.world.is_calm:
            return self.has_failed or not self.queue
        is_first = bool(self.queue) and len(self.coordinator.values) == 1
        return self.world.chance.random() < (0.04 if is_first else 0.005 if self.queue else 0.3)

    def _create(self) -> None:
        self.world.next_value += 1
        count = self.world.chance.choice((1, 1, 2, 3))
        kind = Kind.TRANSACTIONAL if self.is_transactional else Kind.PLAIN
        sent = Sent(kind, self.world.next_value, self.id, self.epoch, self.next_sequence, count)
        self.next_sequence += count
        self.queue.append(Pending(sent))
        if self.is_transactional:
            self.coordinator.add(sent.value)

    def _send(self, pending: Pending, *, is_first: bool) -> None:
        broker = self.world.brokers[self.leader]
        pending.asked, pending.was_first = broker.id, is_first
        self.world.ask(
            -self.id,
            broker,
            lambda reply: broker.produce_from(pending.sent, reply, bumps_epochs=self.bumps_epochs),
            lambda answer: self._answered(pending, answer),
        )

    def _answered(self, pending: Pending, answer: Answer) -> None:
        if pending not in self.queue:
            return  # it was given up
        pending.asked = 0
        if not isinstance(answer, ErrorCode):
            self.queue.remove(pending)
            self.acked.add(pending.sent.value)
            self.world.oracle.acknowledged(answer, pending.sent)
            return
        is_lost = answer is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and pending.was_first
        if is_lost or answer in FATAL:
            self.fail(answer)
        else:
            self.leader = self.world.guess_leader()

    def fail(self, why: ErrorCode) -> None:
        """Gives up what is not answered: it may be in the log or not. The next batch begins an epoch (KIP-360)."""
        self.world.oracle.count("given up")
        if why is ErrorCode.INVALID_PRODUCER_EPOCH and not self.is_transactional:
            raise Violation("KIP-98", f"nobody has replaced producer {self.id}", self.epoch)
        self.queue.clear()
        self.has_failed = True
        if not self.is_transactional:
            self.bump()

    def bump(self) -> None:
        """Another epoch: by InitProducerId, or with each transaction."""
        self.epoch, self.next_sequence, self.has_failed = self.epoch + 1, 0, False
