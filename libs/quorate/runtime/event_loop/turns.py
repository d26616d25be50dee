"""Long work in turns of the event loop, so that others have it in between: batches, decisions, conversions.

All long works of a loop take one step together in each of its turns: with a step of each in one turn, a small call,
which needs a few turns, would wait for a few steps of every large request that is under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from quorate.records import decode_records
from quorate.wire.items import STEP_BYTES, has_many_items
from quorate.wire.protobuf import to_protobuf, to_protobuf_in_steps, to_struct, to_struct_in_steps

__all__ = ["RECORDS_PER_TURN", "decoded", "in_turns", "protobuf_of", "struct_of"]

T = TypeVar("T")

RECORDS_PER_TURN: Final = 1_000
"""Some 3 ms of CPU: a request may write 10,000 records, and each follower of the log has them all at once."""


async def decoded(values: Sequence[bytes]) -> tuple[Message, ...]:
    """Returns the metadata records that `values` (the values of a batch's records) encode, in their order.

    More than `RECORDS_PER_TURN` are decoded in several turns of the event loop. Raises Corrupt.
    """
    if len(values) <= RECORDS_PER_TURN:
        return tuple(decode_records(values))
    records: list[Message] = []
    for start in range(0, len(values), RECORDS_PER_TURN):
        await asyncio.sleep(0)
        records += decode_records(values[start : start + RECORDS_PER_TURN])
    await asyncio.sleep(0)
    return tuple(records)


Line: TypeAlias = deque[asyncio.Future[None]]

_lines: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Line]] = WeakKeyDictionary()
"""By loop, the works that wait for their next step."""


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Runs a generator, each step in an iteration of the event loop of its own; returns its result, raises its errors.

    Work of a single step is done at once. Of all works with more steps, one takes a step in each iteration, in the
    order in which they ask for it. If the caller is cancelled, the steps that are left are not run.
    """
    try:
        while True:
            next(steps)
            await _own_turn()
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def _own_turn() -> None:
    """Waits for a turn of the loop in which nobody else does a step."""
    loop = asyncio.get_running_loop()
    line = _lines.setdefault(loop, deque())
    turn: asyncio.Future[None] = loop.create_future()
    line.append(turn)
    if len(line) == 1:
        loop.call_soon(_give_turn, loop, line)
    await turn


def _give_turn(loop: asyncio.AbstractEventLoop, line: Line) -> None:
    """Gives the next turn to the first in line who is still there."""
    while line:
        turn = line.popleft()
        if not turn.done():
            turn.set_result(None)
            break
    if line:
        loop.call_soon(_give_turn, loop, line)


async def protobuf_of(message: Message) -> ProtobufMessage:
    """Returns the protobuf message with the values of a struct. One of many items is converted by `in_turns`."""
    if has_many_items(message):
        return await in_turns(to_protobuf_in_steps(message))
    return to_protobuf(message)


async def struct_of(message: ProtobufMessage) -> Any:
    """Returns the struct with the values of a protobuf message. One of many bytes is converted by `in_turns`.

    Raises ApiError(INVALID_REQUEST), naming the field, for a value outside Kafka's type.
    """
    if message.ByteSize() >= STEP_BYTES:
        return await in_turns(to_struct_in_steps(message))
    return to_struct(message)
