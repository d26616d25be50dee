"""Decodes large batches of the log in turns, so that others have the event loop in between."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kraft import Message
from quorate.records import decode_record

__all__ = ["RECORDS_PER_TURN", "decoded"]

RECORDS_PER_TURN: Final = 1_000
"""Some 3 ms of CPU: a request may write 10,000 records, and whoever follows the log has them all at once."""


async def decoded(values: Sequence[bytes]) -> tuple[Message, ...]:
    """The records that `values` are. Raises Corrupt."""
    if len(values) <= RECORDS_PER_TURN:
        return tuple(map(decode_record, values))
    records: list[Message] = []
    for start in range(0, len(values), RECORDS_PER_TURN):
        await asyncio.sleep(0)
        records += map(decode_record, values[start : start + RECORDS_PER_TURN])
    await asyncio.sleep(0)
    return tuple(records)
