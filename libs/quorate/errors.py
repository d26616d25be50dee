"""Whose fault it is: theirs (an error code of Kafka's), the disk's, or ours (an assertion)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kraft.errors import ErrorCode

__all__ = ["ApiError", "Corrupt", "ErrorCode"]


class ApiError(Exception):
    """A request that cannot be granted: Kafka's error code and a sentence that names thing, value and rule.

    `metadata` holds the variables of the sentence, for programs (AIP-193).
    """

    def __init__(self, code: ErrorCode, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class Corrupt(Exception):
    """Bytes that are not what they should be: where they lie, at which position, and what is wrong.

    Raised by decoders without a path; whoever knows the file adds it with `at`.
    """

    def __init__(self, reason: str, *, path: Path | None = None, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.position = position

    def at(self, path: Path, offset_in_file: int = 0) -> Corrupt:
        """The same damage, said of a file: `offset_in_file` bytes are added to the position."""
        position = None if self.position is None else self.position + offset_in_file
        return Corrupt(self.reason, path=path, position=position)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        place = "" if self.position is None else f" at byte {self.position}"
        return f"{where}{self.reason}{place}"
