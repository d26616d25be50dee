"""A transaction coordinator for one producer: it never forgets, and its markers are sent until they are answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quorate.errors import ErrorCode
from quorate.partition_log import Marker, TransactionEnd
from quorate.partition_log.markers import BUMPS_EPOCHS
from tests.sim.invariants.base import Violation
from tests.sim_replication.sent import Kind, Sent

if TYPE_CHECKING:
    from tests.sim_replication.producer_broker import Answer
    from tests.sim_replication.producer_world import ProducerWorld
    from tests.sim_replication.producers import Producer

FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


@dataclass(eq=False)
class Coordinator:
    """`number` counts the transactions; `epoch` is the coordinator epoch, another for each broker that coordinates."""

    world: ProducerWorld
    producer: Producer
    number: int = 0
    is_open: bool = False
    is_ending: bool = False
    epoch: int = 1
    values: list[int] = field(default_factory=list)
    size: int = 0
    """So many batches the present transaction shall have."""

    @property
    def is_full(self) -> bool:
        return len(self.values) >= self.size

    @property
    def is_busy(self) -> bool:
        return self.is_open or self.is_ending

    def begin(self) -> None:
        self.number += 1
        self.is_open = True
        self.values, self.size = [], self.world.chance.randint(1, 6)

    def add(self, value: int) -> None:
        self.values.append(value)
        self.world.referee.of_transactions.add(value)

    def verify(self, sent: Sent) -> ErrorCode:
        """Whether the partition is part of the producer's present transaction (AddPartitionsToTxn, KIP-890)."""
        if sent.producer_epoch != self.producer.epoch:
            return ErrorCode.INVALID_TXN_STATE
        if self.is_ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if self.is_open else ErrorCode.INVALID_TXN_STATE

    def end(self, outcome: Kind) -> None:
        """The decision is written, and from here on nothing changes it."""
        producer = self.producer
        has_unresolved = producer.has_failed or bool(producer.queue)
        producer.queue.clear()
        self.is_open, self.is_ending = False, True
        self.epoch += 1
        self.world.referee.decided(self.values, outcome, self.epoch)
        self.world.oracle.count("decided")
        self.world.oracle.count("aborted" if outcome is Kind.ABORT else "committed")
        self._send(outcome, self.number, has_unresolved=has_unresolved)

    def _send(self, outcome: Kind, number: int, *, has_unresolved: bool) -> None:
        producer = self.producer
        broker = self.world.brokers[self.world.guess_leader()]
        end = TransactionEnd(
            producer_id=producer.id,
            producer_epoch=producer.epoch + producer.bumps_epochs,
            marker=Marker(aborts=outcome is Kind.ABORT, coordinator_epoch=self.epoch),
            transaction_version=BUMPS_EPOCHS if producer.bumps_epochs else 1,
        )

        def answered(answer: Answer) -> None:
            if self.number != number or not self.is_ending:
                return
            if not isinstance(answer, ErrorCode):
                self._complete(has_unresolved=has_unresolved)
                return
            if answer in FENCED:
                raise Violation("KIP-98", "nobody has replaced this coordinator", answer, end)
            # Without an epoch of its own a transaction is safe from late markers of the one before by this alone.
            if not producer.bumps_epochs or self.world.chance.random() < 0.3:
                self.world.come_late(broker, lambda: broker.end_transaction(end, lambda answer: None))
                self.epoch += 1
            self.world.at(20, lambda: self._send(outcome, number, has_unresolved=has_unresolved))

        self.world.ask(
            -producer.id,
            broker,
            lambda reply: broker.end_transaction(end, reply),
            answered,
            comes_again=producer.bumps_epochs,  # else it would end the next transaction, as in Kafka
        )

    def _complete(self, *, has_unresolved: bool) -> None:
        self.is_ending = False
        self.producer.has_failed = False
        if self.producer.bumps_epochs or has_unresolved:
            self.producer.bump()
