"""A seed with producers that have ids, some of them in transactions, in the place of nameless clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from quorate.errors import ErrorCode
from tests.sim.invariants.base import Violation
from tests.sim_replication.broker import Broker
from tests.sim_replication.producer_broker import Answer, ProducerBroker, Reply
from tests.sim_replication.producer_log import ProducerLog
from tests.sim_replication.producers import Producer
from tests.sim_replication.referee import Referee
from tests.sim_replication.sent import sent_of
from tests.sim_replication.stored_producer_log import StoredProducerLog
from tests.sim_replication.world import FAULTS, World

CLIENT_TIMEOUT_MS: Final = 400
CLIENT_DELAY_MS: Final = 5
"""One connection keeps the order."""
READ_MAX: Final = 30
"""So many of the last records most reads begin at."""
KEPT: Final = 6
"""So many of a producer's batches are not deleted: what a partition knows of it does not end with its records."""


class ProducerWorld(World):
    """Producers 1 and 2 are idempotent, 3 and 4 transactional, 4 with an epoch for each transaction."""

    FAULTS: ClassVar[tuple[str, ...]] = (*FAULTS, "roll")
    WANTED: ClassVar[dict[str, int]] = {
        "acknowledged": 10,
        "read committed": 20,
        "leader": 3,
        "decided": 2,
        "duplicate": 1,
    }

    brokers: dict[int, ProducerBroker]  # type: ignore[assignment]

    def __init__(self, seed: int, new_log: Callable[[int], ProducerLog | StoredProducerLog] | None = None) -> None:
        self.referee = Referee(self)
        super().__init__(seed, new_log or (lambda _: ProducerLog()), new_broker=ProducerBroker)
        self.fault_ms = self.chance.choice((200, 500, 900))
        self.apply_share = self.chance.choice((0.3, 0.9))
        self.delay_ms = self.chance.choice((2, 10, 60))
        self.client_ms = self.chance.choice((6, 12))
        self.late = self.chance.choice((0.02, 0.1, 0.3))
        self.in_flight_max = self.chance.choice((1, 3, 5))
        self.producers = {
            number: Producer(self, number, is_transactional=number > 2, bumps_epochs=number > 3)
            for number in range(1, 5)
        }

    # Clients

    def guess_leader(self) -> int:
        """Whom a client takes for the leader: mostly whom the controller has."""
        leader = self.controller.partition.leader
        return leader if leader and self.chance.random() < 0.9 else self.chance.choice(self.controller.replicas)

    def ask(
        self,
        source: int,
        broker: Broker,
        handler: Callable[[Reply], None],
        answered: Callable[[Answer], None],
        *,
        comes_again: bool = True,
    ) -> None:
        """A request of a client's; NETWORK_EXCEPTION for an answer that does not come. It may come late, or twice."""
        is_open = [True]

        def close(answer: Answer) -> None:
            if is_open[0]:
                is_open[0] = False
                answered(answer)

        def serve() -> None:
            handler(lambda answer: self._answer(source, lambda: close(answer)))

        if self.chance.random() >= self.loss:
            self._deliver(CLIENT_DELAY_MS, broker.id, serve)
        if comes_again:
            self.come_late(broker, serve)
        self.at(CLIENT_TIMEOUT_MS, lambda: close(ErrorCode.NETWORK_EXCEPTION))

    def come_late(self, broker: Broker, serve: Callable[[], None]) -> None:
        """A request that was sent on a connection before may be served after all, whatever has become of it since."""
        if self.chance.random() < self.late:
            self._deliver(self.chance.randrange(2_000), broker.id, serve)

    def _answer(self, source: int, close: Callable[[], None]) -> None:
        if self.chance.random() >= self.loss:
            self._deliver(CLIENT_DELAY_MS, source, close)

    def _client(self) -> None:
        producer = self.producers[1 + self.chance.randrange(len(self.producers))]
        if self.chance.random() < 0.8:
            producer.act()
        else:
            broker = self.brokers[self.chance.choice(self.controller.replicas)]
            if broker.is_up and broker.resumes_at_ms <= self.now_ms:
                first = max(broker.log.leo - READ_MAX, 0) if self.chance.random() < 0.9 else 0
                offset = self.chance.randint(first, broker.log.leo)
                self.chance.choice((broker.consume, broker.read_committed))(offset)
        self.at(1 + self.chance.randrange(self.client_ms), self._client)

    # Faults

    def kill(self, broker: Broker) -> bool:
        """Snapshots are not synced, and may be gone."""
        assert isinstance(broker, ProducerBroker), broker
        if self.chance.random() < 0.4:
            broker.log.lose_snapshots()
        return super().kill(broker)

    def tear(self, broker: Broker) -> int:
        """A batch of several records is there, or is not. Often nothing is left but what was flushed."""
        to = super().tear(broker) if self.chance.random() < 0.7 else broker.log.flushed
        return max([broker.log.flushed, *(each.end_offset for each in broker.log.batches if each.end_offset <= to)])

    def roll(self, broker: Broker) -> bool:
        """A segment is full: the next one has a snapshot of the producers."""
        assert isinstance(broker, ProducerBroker), broker
        if broker.is_up:
            broker.log.roll()
        return broker.is_up

    def trim_bound(self, broker: Broker) -> int:
        """Not above a producer's last batches, by which its sequence and its coordinator are known."""
        seen: dict[int, int] = {}
        bound = mark = broker.partition.local.high_watermark
        for batch in reversed(broker.log.read(broker.log.start, mark)):
            producer = sent_of(batch).producer_id
            seen[producer] = seen.get(producer, 0) + 1
            if seen[producer] <= KEPT:
                bound = batch.base_offset
        return bound if len(seen) == len(self.producers) else broker.log.start

    # The end

    def _finish(self) -> None:
        super()._finish()
        assert self.controller.partition.leader is not None
        leader = self.brokers[self.controller.partition.leader]
        if waiting := [each.id for each in self.producers.values() if not each.is_done]:
            raise Violation("KIP-98", "all is answered in the end, and each transaction ended", waiting)
        for broker in self.brokers.values():
            if broker.log.first_open_offset is not None:
                raise Violation("R49", f"broker {broker.id} keeps its last stable offset", broker.log.first_open_offset)
        leader.read_committed(leader.log.start)
        self.referee.at_the_end({value for producer in self.producers.values() for value in producer.acked})
