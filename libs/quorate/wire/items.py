"""How many items a message has, and work on many of them in steps: a generator that yields after every so many.

The loop of a service drives such a generator, so that others have the loop in between. Messages of few items take the
plain functions, which cost less.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from kraft import Message
from quorate.wire.schema import Field, Layout, layout_of

__all__ = [
    "ITEMS_PER_STEP",
    "STEP_BYTES",
    "Items",
    "Steps",
    "TooManyItems",
    "each_in_steps",
    "has_lists",
    "has_many_items",
    "item_done",
]

S = TypeVar("S")
T = TypeVar("T")

ITEMS_PER_STEP: Final = 1_024
"""After how many items work on a large message lets others have the loop: some 2 ms."""
STEP_BYTES: Final = 2 * ITEMS_PER_STEP
"""A protobuf message of fewer bytes has fewer items than a step: one takes two bytes at least."""

Steps: TypeAlias = Generator[None, None, T]
"""Work in steps: each ends with a yield, and the last with the result."""

NO_LIMIT: Final = 1 << 62


class TooManyItems(Exception):
    """Raised if a message has more items in its lists, and in lists inside of them, than its reader allows."""


class Items:
    """The items of a large message: how many it may have yet, and how many are done."""

    __slots__ = ("done", "left")

    def __init__(self, items_max: int = NO_LIMIT) -> None:
        self.left = items_max
        self.done = 0

    def expect(self, count: int) -> None:
        """Notes that a list announces `count` items. Raises TooManyItems."""
        self.left -= count
        if self.left < 0:
            raise TooManyItems

    def one(self) -> Generator[None, None, None]:
        """Notes an item that is done; yields if it ends a step."""
        self.done += 1
        if not self.done % ITEMS_PER_STEP:
            yield

    def many(self, count: int) -> Generator[None, None, None]:
        """Notes work that costs what `count` items do; yields if it ends a step."""
        steps = self.done // ITEMS_PER_STEP
        self.done += count
        if self.done // ITEMS_PER_STEP > steps:
            yield


def each_in_steps(convert: Callable[[S], T], items: Iterable[S], done: Items) -> Steps[tuple[T, ...]]:
    """Converts each item, in steps, and returns the results in order.

    Lists within lists share `done`, so that many short ones make a step, too.
    """
    made = []
    for item in items:
        made.append(convert(item))
        yield from done.one()
    return tuple(made)


def item_done(indent: str) -> list[str]:
    """Returns the generated lines that count an item of a list in `t`, its Items, and yield if it ends a step."""
    lines = ["t.done += 1", f"if not t.done % {ITEMS_PER_STEP}:", "    yield"]
    return [f"{indent}{line}" for line in lines]


def has_many_items(message: Message, most: int = ITEMS_PER_STEP) -> bool:
    """Returns whether the lists of a message, and those inside of them, have more than `most` items."""
    assert most <= ITEMS_PER_STEP, f"nobody counts further than {ITEMS_PER_STEP}"
    count = _counter(layout_of(type(message)))
    return count is not None and count(message) > most


def has_lists(layout: Layout) -> bool:
    """Returns whether a struct has a list, or one inside of it has."""
    return _counter(layout) is not None


@cache
def _counter(layout: Layout) -> Callable[[Any], int] | None:
    """Returns what counts the items of a struct, and no further than to the first too many; None if it has no lists.

    It is generated, as in `convert`: it is asked of each request.
    """
    names: dict[str, Any] = {}
    lines = ["def count(m):", "    n = 0"]
    inside = [(field, _counter(field.struct)) for field in layout.fields if field.struct is not None]
    counted = [*(_length(field) for field in layout.fields if field.array)]
    if not counted and not any(counter for _, counter in inside):
        return None
    lines += [f"    n += {length}" for length in counted]
    for field, counter in inside:
        if counter is not None:
            names[f"count_{field.name}"] = counter
            lines += _inside(field)
    exec(compile("\n".join([*lines, "    return n"]), f"<count {layout.name}>", "exec"), names)
    found: Callable[[Any], int] = names["count"]
    return found


def _length(field: Field) -> str:
    return f"len(m.{field.name} or ())"


def _inside(field: Field) -> list[str]:
    """Returns the lines that count what is in the lists of a struct, or of each struct of an array."""
    value, count = f"m.{field.name}", f"count_{field.name}"
    if not field.array:
        return [f"    if {value} is not None:", f"        n += {count}({value})"]
    return [
        f"    for item in {value} or ():",
        f"        if n > {ITEMS_PER_STEP}:",
        "            return n",
        f"        n += {count}(item)",
    ]
