"""The table of delegation tokens. KIP-48."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kraft import Message
from quorate.metadata.known import known
from quorate.metadata.versions import DELEGATION_TOKENS
from quorate.nouns import Offset
from quorate.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["DelegationTokens"]


class DelegationTokens:
    """The table of delegation tokens by token id. A token's HMAC is not in the log."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._tokens: TimelineDict[str, DelegationTokenRecord] = TimelineDict(registry)
        self._by_hmac: TimelineDict[bytes, str] = TimelineDict(registry)
        self._key = ""
        self._hmac_of: Callable[[str], bytes] | None = None

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[DelegationTokenRecord]:
        """Yields all delegation tokens, sorted by id."""
        return iter([self._tokens[token_id] for token_id in sorted(self._tokens)])

    def in_any_order(self) -> Iterable[DelegationTokenRecord]:
        """Returns all delegation tokens, in no defined order: to sort many takes longer than to look at some."""
        return self._tokens.values()

    def index_by(self, key: str, hmac_of: Callable[[str], bytes]) -> None:
        """Indexes the tokens by HMAC, for `by_hmac`, now and at each change: `hmac_of` computes it from a token's id.

        `key` is the secret that it uses; a call with the same one again does nothing. On an empty table, as at a
        controller's start, this costs nothing. One with tokens is indexed now, and once more if it is reverted to
        before that.
        """
        if self._key == key and len(self._by_hmac) == len(self._tokens):
            return
        self._key, self._hmac_of = key, hmac_of
        self._by_hmac.clear()
        self._by_hmac.update((hmac_of(token_id), token_id) for token_id in self._tokens)
        assert len(self._by_hmac) == len(self._tokens), "tokens with different ids have one HMAC"

    def by_hmac(self, hmac: bytes) -> DelegationTokenRecord | None:
        """Returns the delegation token with this HMAC, in constant time; None if none has it, or before `index_by`."""
        token_id = self._by_hmac.get(hmac)
        return None if token_id is None else self._tokens[token_id]

    def get(self, token_id: str) -> DelegationTokenRecord | None:
        """Returns the delegation token with this id, or None."""
        return self._tokens.get(token_id)

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields each token's record and its record version, sorted by id; none below metadata.version 3.6-IV2."""
        if metadata_version >= DELEGATION_TOKENS:
            for token in self:
                yield token, 0

    def set(self, record: DelegationTokenRecord, _: Offset) -> None:
        """Adds a delegation token, or replaces the one with the same id."""
        if self._hmac_of is not None and record.token_id not in self._tokens:
            hmac = self._hmac_of(record.token_id)
            assert hmac not in self._by_hmac, f"{record.token_id} has the HMAC of another token"
            self._by_hmac[hmac] = record.token_id
        self._tokens[record.token_id] = known(record)

    def remove(self, record: RemoveDelegationTokenRecord, _: Offset) -> None:
        """Removes a delegation token. A missing one is no fault: each Kafka node also expires tokens by itself."""
        if self._tokens.pop(record.token_id, None) is not None and self._hmac_of is not None:
            self._by_hmac.pop(self._hmac_of(record.token_id), None)
