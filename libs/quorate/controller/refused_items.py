"""Refused items: takes single items out of a request before its command decides, and puts their refusals in the answer.

Authorization and mutation quotas both refuse a part of a request. The command never sees that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kraft import Message
from quorate.controller.engine.steps import Steps, finished

__all__ = [
    "CHECKS_PER_STEP",
    "CONFIGS_ALTERED",
    "CONFIGS_DESCRIBED",
    "PARTITIONS_CREATED",
    "TOPICS_CREATED",
    "TOPICS_DELETED",
    "Items",
]

M = TypeVar("M", bound=Message)
R = TypeVar("R")

CHECKS_PER_STEP: Final = 100
"""The items that are checked in one step: some 10 ms of CPU if each is refused, with a line of the audit log."""


class Items(NamedTuple):
    """Takes refused items out of a request of one API, and puts their results behind the others in its response.

    `asked` names the list fields of the request that have the items, `results` the list field of the response that has
    a result for each.
    """

    asked: tuple[str, ...]
    results: str

    def take_out(self, request: M, refusal_of: Callable[[Any], R | None]) -> tuple[M, tuple[R, ...]]:
        """Returns the request without the refused items, and their refusals in the order of the request.

        `refusal_of` returns None for an item that stays; it is called once for each.
        """
        return finished(self.taking_out(request, refusal_of))

    def taking_out(self, request: M, refusal_of: Callable[[Any], R | None]) -> Steps[tuple[M, tuple[R, ...]]]:
        """Does what `take_out` does in steps: a generator that yields after every `CHECKS_PER_STEP` items."""
        refusals: list[R] = []
        left: dict[str, tuple[Any, ...]] = {}
        for name in self.asked:
            stays = []
            for count, item in enumerate(getattr(request, name), start=1):
                refusal = refusal_of(item)
                if refusal is None:
                    stays.append(item)
                else:
                    refusals.append(refusal)
                if count % CHECKS_PER_STEP == 0:
                    yield
            left[name] = tuple(stays)
        count = sum(len(getattr(request, name)) for name in self.asked)
        assert sum(map(len, left.values())) + len(refusals) == count, (request, left, refusals)
        return (replace(request, **left) if refusals else request), tuple(refusals)

    def put_back(self, response: M, refusals: Iterable[Any]) -> M:
        """Returns the response with `refusals`, the results of the refused items, behind its other results."""
        return replace(response, **{self.results: (*getattr(response, self.results), *refusals)})


TOPICS_CREATED: Final = Items(("topics",), "topics")
PARTITIONS_CREATED: Final = Items(("topics",), "results")
TOPICS_DELETED: Final = Items(("topics", "topic_names"), "responses")
"""DeleteTopics names a topic in `topics`, or up to version 5 in `topic_names`: text instead of a struct."""
CONFIGS_ALTERED: Final = Items(("resources",), "responses")
CONFIGS_DESCRIBED: Final = Items(("resources",), "results")
