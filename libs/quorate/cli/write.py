"""A row of the table of writes: an API, how its request is made of arguments, and how its results are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from quorate.cli.failures import Misused

__all__ = ["Json", "Write", "number_of", "pairs", "split"]

Json = dict[str, Any]  # Any: JSON values


class Write(NamedTuple):
    """A verb that changes something, as data: its API, its request, its words. `writing.do` sends it.

    Its options are the parameters of `request`, in typer's words. `request` returns the API's request, by the names of
    its proto in JSON's values. It raises Misused.
    """

    api: str
    about: str
    done: str
    """The word for a result that is no error, as in `orders: created`."""
    request: Callable[..., Json]
    named_by: tuple[str, ...] = ()
    """The fields of a result, and of those that it is in, that name it; without them it is named by `subjects`."""
    subjects: Callable[[Json], Sequence[str]] = lambda _: ()
    """The names of the results in the order of the request, from the request."""
    named: Callable[[Json], str] | None = None
    """Names a result by all its fields."""
    shown: tuple[str, ...] = ()
    """Further fields of a result that are printed."""
    is_enveloped: bool = True
    """Whether it goes by Submit, which can try it and knows a retry; if not, it cannot be tried."""
    fine: frozenset[str] = frozenset()
    """Kafka's names of errors that are none, as there was nothing to do."""
    if_none: str = ""
    """The text if there is no result at all; without it no result means done, too."""
    has_secret: bool = False
    """Whether its request has what is as good as a password."""


def pairs(option: str, given: Iterable[str], *, like: str) -> dict[str, str]:
    """Returns NAME=VALUE as a dict. Raises Misused for another form ("it is `like`"), and for a name given twice."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise Misused(f"{option} {each!r}: it is {like}")
        if name in found:
            raise Misused(f"{option}: {name} is given twice")
        found[name] = value
    return found


def split(option: str, given: str, by: str, *, like: str) -> tuple[str, str]:
    """Returns what is before and after the first `by`. Raises Misused if there is none, or nothing before it.

    `like` says in the error what the form is.
    """
    before, found, after = given.partition(by)
    if not before or not found:
        raise Misused(f"{option} {given!r}: it is {like}")
    return before, after


def number_of(option: str, text: str, *, like: str) -> int:
    """Returns the number in a text, 0 to 9,999,999,999. Raises Misused ("it is `like`") for any other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise Misused(f"{option} {text!r}: it is {like}")
    return int(text)
