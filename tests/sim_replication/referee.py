"""The state of a log's producers, computed from its batches alone: idempotence, transactions (KIP-98, KIP-890)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.partition_log import Appended
from quorate.partition_log.producers import BATCHES_KEPT
from tests.sim.invariants.base import Violation
from tests.sim_replication.producer_log import ProducerLog
from tests.sim_replication.sent import Kind, Sent, sent_of
from tests.sim_replication.stored_producer_log import StoredProducerLog

if TYPE_CHECKING:
    from tests.sim_replication.producer_broker import ProducerBroker
    from tests.sim_replication.producer_world import ProducerWorld


class Expected(NamedTuple):
    """What a leader must do with a batch: answer with an offset of before, append, or refuse it with one of these."""

    duplicate_of: Offset | None = None
    appends: bool = False
    refusals: frozenset[ErrorCode] = frozenset()


@dataclass
class Referee:
    """Sees each batch that reaches a leader, and each that a read_committed consumer gets or leaves out."""

    world: ProducerWorld
    outcomes: dict[int, Kind] = field(default_factory=dict)
    """By value of a transaction's batch: what its coordinator has decided."""
    ended_by: dict[int, int] = field(default_factory=dict)
    """By such a value: the coordinator epoch of the first marker."""
    of_transactions: set[int] = field(default_factory=set)
    told: list[object] = field(default_factory=list)
    """All answers, for the digest."""

    def expects(self, log: ProducerLog | StoredProducerLog, sent: Sent) -> Expected:
        """What the batches of this log say about one that comes now."""
        mine = _last_of(log, sent.producer_id)
        if not mine:
            return Expected(appends=True, refusals=frozenset(_OF_THE_FIRST if sent.kind is Kind.TRANSACTIONAL else ()))
        epoch = mine[0][1].producer_epoch
        if sent.producer_epoch < epoch:
            return Expected(refusals=frozenset({ErrorCode.INVALID_PRODUCER_EPOCH}))
        data = [each for each in mine if each[1].producer_epoch == epoch and not each[1].kind.is_marker]
        is_open = not mine[0][1].kind.is_marker
        may = frozenset(_OF_THE_FIRST if sent.kind is Kind.TRANSACTIONAL and not is_open else ())
        if sent.producer_epoch == epoch:
            for at, (base, other) in enumerate(data[:BATCHES_KEPT]):
                if other.sequence == sent.sequence and other.count == sent.count:
                    is_known = at == 0 or base >= log.known_from
                    return Expected(base, refusals=may if is_known else may | {_DISORDER})
        follows = data[0][1].sequence + data[0][1].count if data and sent.producer_epoch == epoch else 0
        if not is_open and mine[0][1].value >= self.ended_by.get(sent.value, mine[0][1].value + 1):
            return Expected(refusals=may)  # its transaction has ended here: it would open one that nobody ends
        if sent.sequence == follows:
            return Expected(appends=True, refusals=may)
        return Expected(refusals=may | {_DISORDER})

    def appended(self, broker: ProducerBroker, sent: Sent, appended: Appended, expected: Expected) -> None:
        self.told.append((broker.id, sent, appended.base_offset, appended.was_there))
        self.world.oracle.count("duplicate" if appended.was_there else "append")
        offset = appended.base_offset if appended.was_there else None
        if (offset is None and not expected.appends) or offset != expected.duplicate_of:
            raise Violation("KIP-98", f"broker {broker.id} takes a batch otherwise", sent, appended, expected)

    def refused(self, broker: ProducerBroker, sent: Sent, code: ErrorCode, expected: Expected) -> None:
        self.told.append((broker.id, sent, code))
        self.world.oracle.count(code.name)
        is_sure = expected.duplicate_of is not None and _DISORDER not in expected.refusals
        if code not in expected.refusals or is_sure:
            raise Violation("KIP-98", f"broker {broker.id} refuses a batch with {code.name}", sent, expected)

    def decided(self, values: list[int], outcome: Kind, coordinator_epoch: int) -> None:
        """A coordinator has decided about a transaction, whose markers have this epoch or a later one."""
        self.outcomes.update(dict.fromkeys(values, outcome))
        self.ended_by.update(dict.fromkeys(values, coordinator_epoch))

    def read(self, broker: ProducerBroker, offset: Offset, sent: Sent, *, is_skipped: bool) -> None:
        """A read_committed consumer gets a batch, or leaves it out."""
        self.told.append((broker.id, offset, sent.value, is_skipped))
        self.world.oracle.count("skipped" if is_skipped else "read committed")
        self.world.oracle.read(offset, sent)
        if sent.value not in self.of_transactions:
            return
        outcome = self.outcomes.get(sent.value)
        if outcome is not (Kind.ABORT if is_skipped else Kind.COMMIT):
            what = "leaves out" if is_skipped else "gets"
            raise Violation("KIP-98", f"a reader {what} a record, and its transaction is so", offset, sent, outcome)

    def at_the_end(self, values_acked: set[int]) -> None:
        """In all that was ever committed each batch is there once, and a producer's are in its order."""
        last: dict[int, int] = {}
        there: set[int] = set()
        for offset, sent in sorted(self.world.oracle.committed.items()):
            assert isinstance(sent, Sent), sent
            if sent.kind.is_marker:
                continue
            if sent.value <= last.get(sent.producer_id, 0):
                raise Violation("KIP-98", "a producer's records are there once, in its order", offset, sent)
            last[sent.producer_id] = sent.value
            there.add(sent.value)
        if missing := values_acked - there:
            raise Violation("R71", "acknowledged batches are there", sorted(missing)[:3])


_DISORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
_OF_THE_FIRST = (ErrorCode.INVALID_TXN_STATE, _DISORDER)
"""What may come of the question to the coordinator, where the transaction has no record yet."""


def _last_of(log: ProducerLog | StoredProducerLog, producer_id: int) -> list[tuple[Offset, Sent]]:
    """A producer's last batches with their offsets, the last one first: enough of one epoch, if it has them."""
    found: list[tuple[Offset, Sent]] = []
    data = 0
    for batch in reversed(log.batches):
        sent = sent_of(batch)
        if sent.producer_id != producer_id:
            continue
        if found and sent.producer_epoch != found[0][1].producer_epoch:
            break
        found.append((batch.base_offset, sent))
        data += not sent.kind.is_marker
        if data == BATCHES_KEPT:
            break
    return found
