"""The table of delegation tokens. KIP-48."""

from __future__ import annotations

from collections.abc import Iterator

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

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[DelegationTokenRecord]:
        """Yields all delegation tokens, sorted by id."""
        return iter([self._tokens[token_id] for token_id in sorted(self._tokens)])

    def get(self, token_id: str) -> DelegationTokenRecord | None:
        """Returns the delegation token with this id, or None."""
        return self._tokens.get(token_id)

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields the record of each delegation token, sorted by id; none below metadata.version 3.6-IV2."""
        if metadata_version >= DELEGATION_TOKENS:
            for token in self:
                yield token, 0

    def set(self, record: DelegationTokenRecord, _: Offset) -> None:
        """Adds a delegation token, or replaces the one with the same id."""
        self._tokens[record.token_id] = known(record)

    def remove(self, record: RemoveDelegationTokenRecord, _: Offset) -> None:
        """Removes a delegation token. A missing one is no fault: each Kafka node also expires tokens by itself."""
        self._tokens.pop(record.token_id, None)
