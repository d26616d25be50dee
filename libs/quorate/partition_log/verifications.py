"""Transactions whose coordinator is being asked about them, before a partition takes their first record. KIP-890.

A batch that was on its way when its transaction ended would else open one that nobody ends. So the first batch of a
transaction is appended only with the verification that was begun before the question, and that no marker has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.errors import ApiError, ErrorCode
from quorate.partition_log.producers import Producers
from quorate.wire.batch import TRANSACTIONAL, BatchHeader


@dataclass(slots=True, eq=False, kw_only=True)
class Verification:
    """A question to a coordinator, whether a producer's transaction has this partition.

    Each is itself alone: one with the same content is another. `bumps_epochs`: the producer has an epoch for each
    transaction, and so begins each with sequence number 0.
    """

    began_ms: int
    epoch: int
    lowest_sequence: int
    bumps_epochs: bool


class Verifications:
    """The questions to coordinators about one partition's producers: one for a producer id at most (KIP-890)."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self, producers: Producers, header: BatchHeader, *, bumps_epochs: bool, now_ms: int
    ) -> Verification | None:
        """Returns the verification that the append of this batch needs; None if its transaction has records here.

        That of an earlier batch of the producer, if it has not ended, else a new one. `now_ms` is since 1970. Raises
        ApiError(INVALID_PRODUCER_EPOCH).
        """
        producers.check_epoch(header)
        if producers.is_open(header):
            return None
        found = self._by_producer.get(header.producer_id)
        if found is None:
            found = self._by_producer[header.producer_id] = Verification(
                began_ms=now_ms,
                epoch=header.producer_epoch,
                lowest_sequence=header.base_sequence,
                bumps_epochs=bumps_epochs,
            )
        if header.producer_epoch > found.epoch:
            found.epoch, found.lowest_sequence = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, header.base_sequence)
        return found

    def check(self, producers: Producers, header: BatchHeader, verification: Verification | None) -> None:
        """Raises ApiError unless the batch may be appended with this verification.

        INVALID_TXN_STATE: it would begin a transaction that was not asked for, or that has ended since.
        OUT_OF_ORDER_SEQUENCE_NUMBER: a batch before it has not come yet.
        """
        begun = self._by_producer.get(header.producer_id)
        if header.attributes & TRANSACTIONAL and not producers.is_open(header):
            producers.check_epoch(header)
            if verification is None or verification is not begun:
                why = f"the batch of producer {header.producer_id} is part of no transaction that is open here"
                raise ApiError(ErrorCode.INVALID_TXN_STATE, why)
        if begun is None or not header.attributes & TRANSACTIONAL:
            return  # a question about a producer, by any connection, is no matter of its batches of no transaction
        first = 0 if begun.bumps_epochs and not producers.has_batches(header.producer_id) else begun.lowest_sequence
        if header.base_sequence > first:
            sent = f"producer {header.producer_id} sends sequence {header.base_sequence}"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{sent} where {first} is to come first")

    def end(self, header: BatchHeader) -> None:
        """Forgets the verification of the producer of a batch that is part of a transaction, or its marker.

        The transaction has a first record here, or has ended.
        """
        if header.attributes & TRANSACTIONAL:
            self._by_producer.pop(header.producer_id, None)

    def drop(self, producer_id: int, verification: Verification) -> None:
        """Forgets a verification, as the coordinator has said no, unless the producer has another one by now."""
        if self._by_producer.get(producer_id) is verification:
            del self._by_producer[producer_id]

    def forget_idle(self, *, before_ms: int) -> None:
        """Forgets the verifications that were begun before `before_ms` (ms since 1970) and have not ended.

        Another question about the same producer does not make its verification younger.
        """
        for producer_id, each in list(self._by_producer.items()):
            if each.began_ms < before_ms:
                del self._by_producer[producer_id]
