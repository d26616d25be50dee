"""The columns of decoded records: the decoding loop fills them, and Arrow batches are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quorate.nouns import Offset
from quorate.wire.batch import BatchHeader

__all__ = ["COLUMNS", "Columns", "is_dated"]

_DATED_MS: Final = range(-62_135_596_800_000, 253_402_300_800_000)
"""The timestamps of the years 1 to 9999 in ms since 1970; Python and SQL have no others, nor has Arrow all in µs."""
COLUMNS: Final = (
    "offset",
    "epoch",
    "timestamp",
    "batch_base_offset",
    "is_control",
    "api_key",
    "type",
    "version",
    "payload",
    "trace_id",
    "raw",
    "_corrupt",
)
"""Column names of a chunk of rows, in order; `timestamp` is in ms since 1970, `_corrupt` describes damage."""


def is_dated(header: BatchHeader) -> bool:
    """Returns whether a batch's timestamp can be shown: a log may have any, with a checksum that is right."""
    return header.base_timestamp in _DATED_MS


class Columns:
    """Decoded records by column: one list for each name in COLUMNS, in that order, all of equal length."""

    def __init__(self) -> None:
        self.offset: list[int | None] = []
        self.epoch: list[int | None] = []
        self.timestamp: list[int | None] = []
        self.batch_base_offset: list[int | None] = []
        self.is_control: list[bool | None] = []
        self.api_key: list[int | None] = []
        self.type: list[str | None] = []
        self.version: list[int | None] = []
        self.payload: list[str | None] = []
        self.trace_id: list[str | None] = []
        self.raw: list[bytes | None] = []
        self.corrupt: list[str | None] = []

    def __len__(self) -> int:
        return len(self.offset)

    def by_name(self) -> Mapping[str, list[Any]]:
        """Returns the lists by their names in COLUMNS."""
        return dict(zip(COLUMNS, vars(self).values(), strict=True))

    def extend(self, other: Columns) -> None:
        """Appends the rows of `other`."""
        for name, values in vars(other).items():
            getattr(self, name).extend(values)

    def put(
        self,
        header: BatchHeader | None,
        offset: Offset | None,
        *,
        key: int | None = None,
        type: str | None = None,
        version: int | None = None,
        payload: str | None = None,
        raw: bytes | None = None,
        corrupt: str | None = None,
    ) -> None:
        """Appends one row; epoch, timestamp and base offset come from the batch's header, None if there is none.

        The timestamp is also None if `is_dated` is False.
        """
        self.offset.append(offset)
        self.epoch.append(None if header is None else header.epoch)
        self.timestamp.append(None if header is None or not is_dated(header) else header.base_timestamp)
        self.batch_base_offset.append(None if header is None else header.base_offset)
        self.is_control.append(None if header is None else header.is_control)
        self.api_key.append(key)
        self.type.append(type)
        self.version.append(version)
        self.payload.append(payload)
        self.trace_id.append(None)
        self.raw.append(raw)
        self.corrupt.append(corrupt)
