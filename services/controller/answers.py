"""The stages of a large request beside its decision, in turns of the event loop: above all, encoding its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from google.protobuf.message import Message as ProtobufMessage
from msgspec.structs import astuple, replace

from kraft import Message
from quorate.controller.engine.steps import ITEMS_PER_STEP
from quorate.runtime.event_loop.turns import protobuf_of
from quorate.wire.items import has_many_items
from quorate.wire.protobuf import to_protobuf
from quorate.wire.schema import FieldType, layout_of

__all__ = ["LARGE_BYTES", "encoded_in_turns"]

LARGE_BYTES: Final = 32 << 10
"""A request of fewer bytes takes some 3 ms to be checked and converted."""


async def encoded_in_turns(response: Message) -> ProtobufMessage | bytes:
    """Returns the protobuf message of a response, or its bytes if it has a long list, which are then made in turns.

    A list is long if it and the lists in its items have more than `ITEMS_PER_STEP` items together.

    The bytes are those of several messages, each with a part of the list and all else empty or equal: read one after
    the other, they are the whole message (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
    """
    if not has_many_items(response, ITEMS_PER_STEP):
        return to_protobuf(response)
    lists = _lists(type(response))
    long = [name for name in lists if _is_long(getattr(response, name) or ())]
    if not long:
        return await protobuf_of(response)
    nothing: dict[str, Any] = {name: () for name in lists if getattr(response, name) is not None}
    parts = [(await protobuf_of(replace(response, **dict.fromkeys(long, ())))).SerializeToString()]
    for name in long:
        for some in _slices(getattr(response, name)):
            await asyncio.sleep(0)
            part = await protobuf_of(replace(response, **{**nothing, name: some}))  # one item may have a long list
            parts.append(part.SerializeToString())
    return b"".join(parts)


def _is_long(items: Sequence[Any]) -> bool:
    return len(items) > ITEMS_PER_STEP or sum(map(_count, items)) > ITEMS_PER_STEP


def _slices(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yields the items in slices of at most `ITEMS_PER_STEP`, with those in their lists; at least one item each."""
    start = count = 0
    for position, item in enumerate(items):
        size = _count(item)
        if position > start and count + size > ITEMS_PER_STEP:
            yield items[start:position]
            start, count = position, 0
        count += size
    yield items[start:]


def _count(item: Any) -> int:
    """Returns 1 and the number of items in the lists of an item; a list that is `Shared` is encoded once for all."""
    if not isinstance(item, Message):
        return 1
    return 1 + sum(len(value) for value in astuple(item) if type(value) is tuple)


@cache
def _lists(response: type[Message]) -> tuple[str, ...]:
    """The names of the list fields of a response; none if it has a struct that is not in a list, and may have lists."""
    fields = layout_of(response).fields
    if any(field.kind is FieldType.STRUCT and not field.array for field in fields):
        return ()
    return tuple(field.name for field in fields if field.array)
