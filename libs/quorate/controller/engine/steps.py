"""Long work in steps: a generator that yields after every few hundred items, so that its driver can do others' work."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final, TypeAlias, TypeVar

__all__ = ["ITEMS_PER_STEP", "Steps", "after_step", "finished", "in_order", "over", "slices"]

T = TypeVar("T")

ITEMS_PER_STEP: Final = 400
"""The items of one step: about 8 ms of CPU for a decision of 20 µs an item, the most expensive there is."""

NAMES_PER_STEP: Final = 2_000
"""The names of one step of a sort: 2 ms."""

Steps: TypeAlias = Generator[None, None, T]
"""Work in steps: each ends with a yield, and the last with the result."""


def finished(steps: Steps[T]) -> T:
    """Runs all steps at once and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def after_step(steps: Steps[T]) -> T | None:
    """Runs the next step. Returns the work's result if it was the last; None if others follow.

    >>> after_step(over("done"))
    'done'
    """
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    return None


def over(result: T) -> Steps[T]:
    """Returns work in steps that has no step left, only this result."""
    return result
    yield


def slices(items: Sequence[T], size: int = ITEMS_PER_STEP) -> Iterator[Sequence[T]]:
    """Yields the items in slices of at most `size`, in order.

    >>> list(slices("abcde", 2))
    ['ab', 'cd', 'e']
    """
    assert size >= 1, size
    if len(items) <= size:
        return iter((items,) if items else ())
    return (items[start : start + size] for start in range(0, len(items), size))


def in_order(names: Iterator[str]) -> Steps[Iterator[str]]:
    """Sorts names in steps of `NAMES_PER_STEP`, and returns them as an iterator: each takes some 1 us then.

    >>> list(finished(in_order(iter("cab"))))
    ['a', 'b', 'c']
    """
    parts = []
    while some := sorted(islice(names, NAMES_PER_STEP)):
        parts.append(some)
        yield
    return merge(*parts)
