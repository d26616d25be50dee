"""The table of users' SCRAM credentials. KIP-900."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.metadata.known import known
from quorate.metadata.versions import SCRAM
from quorate.nouns import Offset
from quorate.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["MECHANISMS", "ScramCredentials"]

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class ScramCredentials:
    """The table of SCRAM credentials by mechanism and user. They are secret: show only who has which mechanism."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._credentials: TimelineDict[tuple[int, str], UserScramCredentialRecord] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._credentials)

    def __iter__(self) -> Iterator[UserScramCredentialRecord]:
        """Yields all credentials, sorted by mechanism and user."""
        return iter([self._credentials[key] for key in sorted(self._credentials)])

    def get(self, mechanism: int, user: str) -> UserScramCredentialRecord | None:
        """Returns the credential of a user for a mechanism, or None."""
        return self._credentials.get((mechanism, user))

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields each credential's record and its record version, by mechanism and user; none below level 3.5-IV2."""
        if metadata_version >= SCRAM:
            for credential in self:
                yield credential, 0

    def set(self, record: UserScramCredentialRecord, _: Offset) -> None:
        """Sets or replaces the credential of a user for a mechanism."""
        self._credentials[record.mechanism, record.name] = known(record)

    def remove(self, record: RemoveUserScramCredentialRecord, _: Offset) -> None:
        """Removes a credential. Raises ReplayFault if the user has none for that mechanism."""
        if (record.mechanism, record.name) not in self._credentials:
            mechanism = MECHANISMS.get(record.mechanism, f"mechanism {record.mechanism}")
            raise ReplayFault(f"user {record.name!r} has no credential for {mechanism}")
        del self._credentials[record.mechanism, record.name]
