"""The columns of decoded records: the decoding loop notes their rows, and Arrow batches are made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Returns whether a batch's base timestamp is of the years 1 to 9999; a log may have any, with a right checksum."""
    return header.base_timestamp in _DATED_MS


Row = tuple[int | bool | str | bytes | None, ...]


class Columns:
    """Decoded records, noted row by row and read by column; a row has a value for each name in COLUMNS."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def __len__(self) -> int:
        return len(self.rows)

    def by_name(self) -> Mapping[str, Sequence[Any]]:
        """Returns the columns, of at least one row, by their names in COLUMNS."""
        return dict(zip(COLUMNS, zip(*self.rows, strict=True), strict=True))

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
        batch: tuple[int | bool | None, ...] = (None,) * 4
        if header is not None:
            at = header.base_timestamp if is_dated(header) else None
            batch = header.epoch, at, header.base_offset, header.is_control
        self.rows.append((offset, *batch, key, type, version, payload, None, raw, corrupt))
