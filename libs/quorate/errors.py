"""The kinds of errors: refused requests (Kafka's error codes), damaged bytes (Corrupt), our own bugs (assertions)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kraft.errors import ErrorCode

__all__ = ["ApiError", "Corrupt", "ErrorCode", "error_name", "error_of", "refusal_of"]


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

    def as_value(self) -> ApiError:
        """Takes traceback and context from this error and returns it, so that it can be kept.

        The frames in it have what was asked for, and often this error itself: that would keep both until the next full
        garbage collection.
        """
        self.__context__ = None
        return self.with_traceback(None)


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


def error_of(number: int) -> ErrorCode:
    """Returns the error code of a number from the wire; UNKNOWN_SERVER_ERROR for an unknown one, as `Errors.forCode`.

    >>> error_of(35).name, error_of(31999).name
    ('UNSUPPORTED_VERSION', 'UNKNOWN_SERVER_ERROR')
    """
    return ErrorCode(number) if number in _KNOWN else ErrorCode.UNKNOWN_SERVER_ERROR


def refusal_of(number: int, message: str, metadata: Mapping[str, str] | None = None) -> ApiError:
    """Returns the refusal in a node's answer; the message names an error code that only a later Kafka has.

    >>> str(refusal_of(31999, "not now"))
    'UNKNOWN_SERVER_ERROR: error 31999: not now'
    """
    return ApiError(error_of(number), message if number in _KNOWN else f"{error_name(number)}: {message}", metadata)


def error_name(code: int) -> str:
    """Returns the name of an error code; for one that only a later Kafka has, "error" and the number."""
    return ErrorCode(code).name if code in _KNOWN else f"error {code}"


_KNOWN = frozenset(ErrorCode)
