"""Rows by column: what the decoding loop fills, and an Arrow batch is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quorate.nouns import Offset
from quorate.wire.batch import BatchHeader

__all__ = ["COLUMNS", "Columns"]

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
"""The columns of a chunk; timestamps in ms since 1970, the rest as `Columns` says."""


class Columns:
    """Rows by column: lists of equal length, in the order of COLUMNS."""

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
        """The columns by their names in COLUMNS."""
        return dict(zip(COLUMNS, vars(self).values(), strict=True))

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
        """One row, with what the batch's header says."""
        self.offset.append(offset)
        self.epoch.append(None if header is None else header.epoch)
        self.timestamp.append(None if header is None else header.base_timestamp)
        self.batch_base_offset.append(None if header is None else header.base_offset)
        self.is_control.append(None if header is None else header.is_control)
        self.api_key.append(key)
        self.type.append(type)
        self.version.append(version)
        self.payload.append(payload)
        self.trace_id.append(None)
        self.raw.append(raw)
        self.corrupt.append(corrupt)
