"""Long work in turns of the event loop, so that others have it in between: large batches of the log, and decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Final, TypeVar

from kraft import Message
from quorate.records import decode_records

__all__ = ["RECORDS_PER_TURN", "decoded", "in_turns"]

T = TypeVar("T")

RECORDS_PER_TURN: Final = 1_000
"""Some 3 ms of CPU: a request may write 10,000 records, and whoever follows the log has them all at once."""


async def decoded(values: Sequence[bytes]) -> tuple[Message, ...]:
    """The records that `values` are. Raises Corrupt."""
    if len(values) <= RECORDS_PER_TURN:
        return tuple(decode_records(values))
    records: list[Message] = []
    for start in range(0, len(values), RECORDS_PER_TURN):
        await asyncio.sleep(0)
        records += decode_records(values[start : start + RECORDS_PER_TURN])
    await asyncio.sleep(0)
    return tuple(records)


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Runs work in steps, each in a turn of the loop of its own, and returns its result. Raises what it raises.

    Work of a single step is done at once. If the caller is cancelled, the steps that are left are not run.
    """
    with closing(steps):
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await asyncio.sleep(0)
