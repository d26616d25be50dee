"""The kinds of errors: refused requests (Kafka's error codes), damaged bytes (Corrupt), our own bugs (assertions)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kraft.errors import ErrorCode

__all__ = ["ApiError", "Corrupt", "ErrorCode", "error_name"]


class ApiError(Exception):
    """Raised to refuse a request: Kafka's error code, and a sentence that names the thing, the value and the rule.

    `metadata` holds the sentence's values for programs (AIP-193).
    """

    def __init__(self, code: ErrorCode, message: str, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class Corrupt(Exception):
    """Raised for damaged or malformed bytes: the file, the position in bytes, and the reason.

    Decoders raise it without a path; code that knows the file adds it with `at`.
    """

    def __init__(self, reason: str, *, path: Path | None = None, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.position = position

    def at(self, path: Path, offset_in_file: int = 0) -> Corrupt:
        """Returns the same error with a path; `offset_in_file` bytes are added to the position."""
        position = None if self.position is None else self.position + offset_in_file
        return Corrupt(self.reason, path=path, position=position)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        place = "" if self.position is None else f" at byte {self.position}"
        return f"{where}{self.reason}{place}"


def error_name(code: int) -> str:
    """Returns the name of an error code; for one that only a later Kafka has, "error" and the number."""
    return ErrorCode(code).name if code in set(ErrorCode) else f"error {code}"
