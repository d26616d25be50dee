"""One API as a table: what is there, what is asked, which records that makes, what is answered, by which rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kraft import Message
from quorate.controller.engine.decision import Command, Decision
from quorate.errors import ApiError, ErrorCode
from tests.controller.clusters import Cluster

__all__ = ["Row", "Table", "codes", "decided", "without_words"]

WORDS = "error_message"
CODE = "error_code"
NO_ROOM = "(no room)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One decision. `rule` is Kafka's, with the KIP, issue or class that it can be looked up in.

    `answer` is the response without its words, or the error that refuses all of the request. `given` is the cluster,
    where it is not the table's; its docstring says what is in it. `beside` is what the driver adds to the request:
    placements, the principal.
    """

    case: str
    rule: str
    request: Any
    records: tuple[Message, ...] = ()
    answer: Any
    given: Callable[[], Cluster] | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All that `command` decides. `kafka` is the class or method of Kafka that decides it."""

    api: str
    kafka: str
    command: Callable[..., Command[Any]]
    """Of the cluster (for its settings), the request, and what is `beside`."""
    given: Callable[[], Cluster]
    rows: tuple[Row, ...]

    def cluster(self, row: Row) -> Cluster:
        """The one that this row is decided on, made anew."""
        return (row.given or self.given)()


def decided(table: Table, row: Row, cluster: Cluster) -> Decision[Any] | ApiError:
    """What `cluster` answers to this row's request."""
    try:
        return cluster.decide(table.command(cluster, row.request, **row.beside))
    except ApiError as refused:
        return refused


def without_words(value: Any) -> Any:
    """The same without the messages of errors, which are for people; what is granted has null or an empty one."""
    if isinstance(value, tuple):
        return tuple(map(without_words, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: without_words(getattr(value, name)) for name in value.__struct_fields__}
        is_error = WORDS in fields and fields.get(CODE) != ErrorCode.NONE
        return msgspec.structs.replace(value, **fields | ({WORDS: None} if is_error else {}))
    return value


def codes(value: Any) -> Iterator[tuple[ErrorCode, str | None]]:
    """Every error code in a response, and the words beside it; NO_ROOM where Kafka's message has none for any."""
    if isinstance(value, tuple):
        for each in value:
            yield from codes(each)
    elif isinstance(value, msgspec.Struct):
        if CODE in value.__struct_fields__:
            yield ErrorCode(getattr(value, CODE)), getattr(value, WORDS, NO_ROOM)
        for name in value.__struct_fields__:
            yield from codes(getattr(value, name))
