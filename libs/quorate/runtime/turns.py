"""Long work in turns of the event loop, so that others have it in between: batches, decisions, conversions."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from quorate.records import decode_records
from quorate.wire.items import STEP_BYTES, has_many_items
from quorate.wire.protobuf import to_protobuf, to_protobuf_in_steps, to_struct, to_struct_in_steps

__all__ = ["RECORDS_PER_TURN", "decoded", "in_turns", "protobuf_of", "struct_of"]

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
    try:
        while True:
            next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def protobuf_of(message: Message) -> ProtobufMessage:
    """Returns the protobuf message with the values of a struct. One of many items is converted in turns."""
    if has_many_items(message):
        return await in_turns(to_protobuf_in_steps(message))
    return to_protobuf(message)


async def struct_of(message: ProtobufMessage) -> Any:
    """Returns the struct with the values of a protobuf message. One of many items is converted in turns.

    Raises ApiError, as `to_struct`.
    """
    if message.ByteSize() >= STEP_BYTES:
        return await in_turns(to_struct_in_steps(message))
    return to_struct(message)
