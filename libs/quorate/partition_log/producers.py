"""The state of a partition's producers: sequences (idempotence) and open transactions. KIP-98, KIP-360.

A producer's state is what its last five batches were, so that a batch that is sent again is known by its sequence
numbers and not appended twice. A transaction is open from its first record to its marker, and counts as undecided for
readers until the marker is committed, too.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import Offset
from quorate.partition_log.markers import BUMPS_EPOCHS, TransactionEnd
from quorate.wire.batch import NONE, TRANSACTIONAL, BatchHeader

BATCHES_KEPT: Final = 5
"""A producer has at most five requests in flight (`max.in.flight.requests.per.connection` with idempotence)."""
SEQUENCE_MAX: Final = (1 << 31) - 1
EPOCH_MAX: Final = (1 << 15) - 1

_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
VERSION: Final = 1


class Sequenced(NamedTuple):
    """One batch of a producer: its sequence numbers, offsets (all inclusive) and largest timestamp."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp_ms: int


@dataclass(slots=True)
class Producer:
    """One producer id's state in one partition. `opened_at` is the first offset of its open transaction."""

    epoch: int = NONE
    coordinator_epoch: int = NONE
    opened_at: Offset | None = None
    timestamp_ms: int = NONE
    batches: deque[Sequenced] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        """The last sequence number of the producer's last batch; -1 if it has none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NONE

    def repeated(self, header: BatchHeader) -> Sequenced | None:
        """Returns the batch of the log that `header` sends again; None if it is another one."""
        if header.producer_epoch != self.epoch:
            return None
        sent = (header.base_sequence, last_sequence_of(header))
        return next((each for each in self.batches if (each.first_sequence, each.last_sequence) == sent), None)


class Decided(NamedTuple):
    """A transaction that its marker, at `last_offset`, has ended."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    aborted: bool


class Producers:
    """The state of all producers of one partition; iterates over producer id and state."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._open: OrderedDict[Offset, None] = OrderedDict()
        """The first offsets, in their order, of transactions that are open."""
        self._undecided: OrderedDict[Offset, None] = OrderedDict()
        """The first offsets, in their order, of those that are open, or whose marker is not committed."""
        self._decided: deque[Decided] = deque()
        """Those whose marker is not committed, by their markers."""

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._producers.items())

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def first_open_offset(self) -> Offset | None:
        """The least first offset of a transaction that is open, or whose marker is not committed yet (R49); or None."""
        return next(iter(self._undecided), None)

    def repeated(self, header: BatchHeader) -> Sequenced | None:
        """Returns the earlier batch that this one sends again, of its producer's last five; None if it is new."""
        known = self._producers.get(header.producer_id)
        return None if known is None or header.producer_id == NONE else known.repeated(header)

    def check(self, header: BatchHeader) -> None:
        """Checks a batch that a client sends: its epoch, and that its sequence follows. Raises ApiError.

        INVALID_PRODUCER_EPOCH for an epoch below the last one, OUT_OF_ORDER_SEQUENCE_NUMBER for a gap. A producer that
        this partition does not know may begin anywhere (KIP-360). INVALID_TXN_STATE for a batch of no transaction
        while one is open.
        """
        known = self._producers.get(header.producer_id)
        if header.producer_id == NONE or known is None or known.epoch == NONE:
            return
        self.check_epoch(header)
        who = f"producer {header.producer_id}"
        if known.opened_at is not None and not header.attributes & TRANSACTIONAL:
            why = f"{who} sends a batch of no transaction while its transaction from offset {known.opened_at} is open"
            raise ApiError(ErrorCode.INVALID_TXN_STATE, why)
        last = known.last_sequence if header.producer_epoch == known.epoch else NONE
        expected = 0 if last == SEQUENCE_MAX else last + 1
        if header.base_sequence != expected:
            sent = f"sequence {header.base_sequence} in epoch {header.producer_epoch}"
            why = f"{who} sends {sent}, where {expected} follows"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, why)

    def check_epoch(self, header: BatchHeader) -> None:
        """Raises ApiError(INVALID_PRODUCER_EPOCH) for a producer that another one of its id has replaced."""
        known = self._producers.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            sent = f"producer {header.producer_id} sends in epoch {header.producer_epoch}"
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, f"{sent}, and is in epoch {known.epoch}")

    def is_open(self, header: BatchHeader) -> bool:
        """Returns whether the batch goes on with a transaction that has records here already."""
        known = self._producers.get(header.producer_id)
        return known is not None and known.opened_at is not None and known.epoch == header.producer_epoch

    def has_batches(self, producer_id: int) -> bool:
        """Returns whether a batch of this producer is known in its last epoch."""
        known = self._producers.get(producer_id)
        return known is not None and bool(known.batches)

    def check_end(self, end: TransactionEnd) -> None:
        """Checks what a coordinator has decided, as Kafka. Raises ApiError.

        INVALID_PRODUCER_EPOCH: the producer is in a later transaction. TRANSACTION_COORDINATOR_FENCED: another broker
        coordinates by now. From transaction.version 2 on the epoch must be a new one, but for a marker that is sent
        again (KIP-890).
        """
        known = self._producers.get(end.producer_id)
        if known is None:
            return
        is_old = end.producer_epoch < known.epoch
        if end.transaction_version >= BUMPS_EPOCHS and end.producer_epoch == known.epoch:
            is_old = known.opened_at is not None and end.producer_epoch != EPOCH_MAX
        if is_old:
            sent = f"a marker of producer {end.producer_id} in epoch {end.producer_epoch}"
            why = f"{sent} by transaction.version {end.transaction_version}, and it is in epoch {known.epoch}"
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, why)
        if end.marker.coordinator_epoch < known.coordinator_epoch:
            sent = f"a marker of producer {end.producer_id} by coordinator epoch {end.marker.coordinator_epoch}"
            why = f"{sent}, and the last one was by {known.coordinator_epoch}"
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, why)

    def note(self, header: BatchHeader) -> None:
        """Takes a data batch of the log into its producer's state; the first one of a transaction opens that."""
        if header.producer_id == NONE:
            return
        producer = self._producers.setdefault(header.producer_id, Producer())
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        last = last_sequence_of(header)
        producer.batches.append(
            Sequenced(header.base_sequence, last, header.base_offset, header.last_offset, header.max_timestamp)
        )
        producer.timestamp_ms = header.max_timestamp
        if header.attributes & TRANSACTIONAL and producer.opened_at is None:
            producer.opened_at = header.base_offset
            self._open[header.base_offset] = self._undecided[header.base_offset] = None

    def note_marker(self, header: BatchHeader, *, aborts: bool, coordinator_epoch: int) -> Decided | None:
        """Takes a transaction's marker in the log into its producer's state; returns the transaction that it ends.

        None if none is open here. For readers it is undecided until `commit`.
        """
        producer = self._producers.setdefault(header.producer_id, Producer())
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp_ms = header.max_timestamp
        opened_at, producer.opened_at = producer.opened_at, None
        if opened_at is None:
            return None
        decided = Decided(header.producer_id, opened_at, header.last_offset, aborts)
        del self._open[opened_at]
        self._decided.append(decided)
        return decided

    def last_stable_at(self, decided: Decided) -> Offset:
        """Returns the last stable offset with this marker: where the first open transaction begins, or its end."""
        return next(iter(self._open), decided.last_offset + 1)

    def commit(self, high_watermark: Offset) -> None:
        """Counts transactions whose markers are below the high watermark as decided: `first_open_offset` may rise."""
        while self._decided and self._decided[0].last_offset < high_watermark:
            del self._undecided[self._decided.popleft().first_offset]

    def forget_idle(self, *, before_ms: int) -> None:
        """Forgets producers whose last timestamp is before `before_ms` (since 1970) and that have no open transaction.

        Kafka's `producer.id.expiration.ms`, one day.
        """
        for producer_id, producer in list(self._producers.items()):
            if producer.opened_at is None and producer.timestamp_ms < before_ms:
                del self._producers[producer_id]

    def encode(self) -> bytes:
        """Returns the content of a producer snapshot: a CRC-32C, and the last batch of each producer.

        A state that is decoded from it knows no earlier batches.
        """
        entries = b"".join(_encoded(producer_id, producer) for producer_id, producer in self)
        body = _COUNT.pack(len(self)) + entries
        return _HEAD.pack(VERSION, crc32c(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> Producers:
        """Returns the state that a producer snapshot has. Raises Corrupt."""
        if len(data) < _HEAD.size + _COUNT.size:
            raise Corrupt(f"a producer snapshot of {len(data)} bytes", position=0)
        version, crc = _HEAD.unpack_from(data)
        body = data[_HEAD.size :]
        if version != VERSION:
            raise Corrupt(f"a producer snapshot of version {version}; only {VERSION} is spoken", position=0)
        if (found := crc32c(body)) != crc:
            raise Corrupt(f"a producer snapshot with checksum {crc:#010x}, its bytes have {found:#010x}", position=2)
        (count,) = _COUNT.unpack_from(body)
        if count * _ENTRY.size != len(body) - _COUNT.size:
            raise Corrupt(f"a producer snapshot of {count} producers in {len(body)} bytes", position=_HEAD.size)
        state = cls()
        for at in range(count):
            state._decode(body, _COUNT.size + at * _ENTRY.size)
        opened = sorted(each.opened_at for _, each in state if each.opened_at is not None)
        state._open, state._undecided = OrderedDict.fromkeys(opened), OrderedDict.fromkeys(opened)
        return state

    def _decode(self, body: bytes, at: int) -> None:
        entry = _ENTRY.unpack_from(body, at)
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, opened_at = entry
        producer = Producer(epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp_ms=timestamp)
        if last_sequence != NONE:
            first = last_sequence - delta if last_sequence >= delta else last_sequence - delta + SEQUENCE_MAX + 1
            producer.batches.append(Sequenced(first, last_sequence, last_offset - delta, last_offset, timestamp))
        if opened_at != NONE:
            producer.opened_at = opened_at
        self._producers[producer_id] = producer


def last_sequence_of(header: BatchHeader) -> int:
    """Returns the sequence number of a batch's last record; numbers go on at 0 after 2^31 - 1. -1 if it has none."""
    if header.base_sequence == NONE:
        return NONE
    return (header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX


def _encoded(producer_id: int, producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else Sequenced(NONE, NONE, NONE, NONE, NONE)
    delta = last.last_offset - last.base_offset
    opened_at = NONE if producer.opened_at is None else producer.opened_at
    return _ENTRY.pack(
        *(producer_id, producer.epoch, last.last_sequence, last.last_offset, delta, producer.timestamp_ms),
        *(producer.coordinator_epoch, opened_at),
    )
