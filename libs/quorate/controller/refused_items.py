"""Refused items: takes single items out of a request before its command decides, and puts their refusals in the answer.

Authorization and mutation quotas both refuse a part of a request. The command never sees that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kraft import Message

__all__ = [
    "CONFIGS_ALTERED",
    "CONFIGS_DESCRIBED",
    "PARTITIONS_CREATED",
    "TOPICS_CREATED",
    "TOPICS_DELETED",
    "Items",
]

M = TypeVar("M", bound=Message)
R = TypeVar("R")


class Items(NamedTuple):
    """The items of one API: list fields of its request, each with a result in one list field of the response."""

    asked: tuple[str, ...]
    results: str

    def take_out(self, request: M, refusal_of: Callable[[Any], R | None]) -> tuple[M, tuple[R, ...]]:
        """Returns the request without the refused items, and their refusals in the order of the request.

        `refusal_of` returns None for an item that stays; it is called once for each.
        """
        refusals: list[R] = []

        def stays(item: Any) -> bool:
            refusal = refusal_of(item)
            if refusal is not None:
                refusals.append(refusal)
            return refusal is None

        left = {name: tuple(item for item in getattr(request, name) if stays(item)) for name in self.asked}
        count = sum(len(getattr(request, name)) for name in self.asked)
        assert sum(map(len, left.values())) + len(refusals) == count, (request, left, refusals)
        return (replace(request, **left) if refusals else request), tuple(refusals)

    def put_back(self, response: M, refusals: Iterable[Any]) -> M:
        """Returns the response with the results of refused items behind the others."""
        return replace(response, **{self.results: (*getattr(response, self.results), *refusals)})


TOPICS_CREATED: Final = Items(("topics",), "topics")
PARTITIONS_CREATED: Final = Items(("topics",), "results")
TOPICS_DELETED: Final = Items(("topics", "topic_names"), "responses")
"""DeleteTopics names a topic in `topics`, or up to version 5 in `topic_names`: text instead of a struct."""
CONFIGS_ALTERED: Final = Items(("resources",), "responses")
CONFIGS_DESCRIBED: Final = Items(("resources",), "results")
