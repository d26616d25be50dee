"""Detects SCRAM credentials that the log has and a checkpoint lacks: a bug of Kafka's JVM controller loses them.

Kafka's ScramDelta.apply (its bytecode in 4.3.1 and 4.4.0) applies the changes of one delta to a mechanism in the order
of Java's HashMap of user names. When a removal leaves the mechanism without users, its map is taken out of the image;
what the delta sets after that goes into the detached map and is lost. The image and each checkpoint made of it lack
those users until their credentials are set again; the log has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kraft import Message
from quorate.errors import Corrupt
from quorate.metadata.scram import MECHANISMS
from quorate.nouns import Offset
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    decode_record,
    encode_record,
)
from quorate.wire.batch import BatchHeader, data_values

__all__ = ["Credential", "ScramHistory", "credentials_in", "described"]

Credential = tuple[int, str]
"""A credential's mechanism number and user name, never its secret."""

_SET: Final = encode_record(UserScramCredentialRecord(), 0)[:3]
_FRAMES: Final = (
    _SET,
    *(
        encode_record(record, 0)[:3]
        for record in (
            RemoveUserScramCredentialRecord(),
            BeginTransactionRecord(),
            EndTransactionRecord(),
            AbortTransactionRecord(),
        )
    ),
)
"""The first bytes of the record types that matter here: a batch without any of them is not decoded."""
DESCRIBED_MAX: Final = 20


class ScramHistory:
    """The SCRAM credentials that a log sets and removes, by offset. It must read every batch in order."""

    def __init__(self) -> None:
        self._changes: list[tuple[Offset, Credential, bool]] = []
        self._transaction: int | None = None
        """The number of changes when the open transaction began: an abort removes the later ones."""
        self._is_whole = True

    def note(self, header: BatchHeader, data: bytes) -> None:
        """Reads one batch of the log. After one that cannot be decoded, `changes_below` is always false."""
        if header.is_control or not any(frame in data for frame in _FRAMES):
            return
        try:
            for offset, value in enumerate(data_values(data, 0, header), header.base_offset):
                if value[:3] in _FRAMES:
                    self._take(offset, decode_record(value))
        except Corrupt:
            self._is_whole = False

    def changes_below(self, end: Offset) -> bool:
        """Returns whether a checkpoint at `end` (exclusive) could have lost a credential.

        False if no credential was changed before `end`, or if a batch could not be decoded.
        """
        return self._is_whole and any(offset < end for offset, _, _ in self._changes)

    def lost(self, end: Offset, *, begin: Iterable[Credential], checkpoint: Collection[Credential]) -> list[Credential]:
        """Returns the credentials that the log has at `end` (exclusive) and `checkpoint`, made there, lacks; sorted.

        `begin` are the credentials with which the log began. To be asked only if `changes_below(end)` is true.
        """
        found = set(begin)
        for offset, credential, is_set in self._changes:
            if offset < end:
                (found.add if is_set else found.discard)(credential)
        return sorted(found.difference(checkpoint))

    def _take(self, offset: Offset, record: Message) -> None:
        match record:
            case UserScramCredentialRecord():
                self._changes.append((offset, (record.mechanism, record.name), True))
            case RemoveUserScramCredentialRecord():
                self._changes.append((offset, (record.mechanism, record.name), False))
            case BeginTransactionRecord():
                self._transaction = len(self._changes)
            case AbortTransactionRecord() if self._transaction is not None:
                del self._changes[self._transaction :]
                self._transaction = None
            case EndTransactionRecord():
                self._transaction = None


def credentials_in(values: Iterable[bytes]) -> set[Credential]:
    """Returns the credentials in a checkpoint, given the values of its records. Raises Corrupt."""
    records = (decode_record(value) for value in values if value[:3] == _SET)
    return {(record.mechanism, record.name) for record in records if isinstance(record, UserScramCredentialRecord)}


def described(credentials: Collection[Credential]) -> str:
    """Returns credentials as text: users and mechanisms, no secrets; only the first 20 are listed, the rest counted."""
    texts = [f"{user!r} ({MECHANISMS.get(number, f'mechanism {number}')})" for number, user in credentials]
    more = len(texts) - DESCRIBED_MAX
    return ", ".join(texts[:DESCRIBED_MAX]) + (f" and {more} more" if more > 0 else "")
