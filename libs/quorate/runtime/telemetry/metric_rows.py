"""Metrics declared as table rows: name, kind, unit, help, the equivalent Kafka metrics, and how to read the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from quorate.runtime.telemetry.metrics import Observed, Value, observed

__all__ = ["Row", "declare", "markdown", "one"]

N = TypeVar("N")


# Without slots: before Python 3.12 a frozen dataclass with slots cannot be made as Row[X](…).
@dataclass(frozen=True, kw_only=True)
class Row(Generic[N]):
    """The declaration of one metric. `kafka` are the equivalent Kafka metrics.

    `read` returns the present values with their labels; it is None for a metric that the code records itself.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    kafka: tuple[str, ...] = ()
    read: Callable[[N], Iterable[Value]] | None = None


def one(read: Callable[[N], float | None]) -> Callable[[N], Iterable[Value]]:
    """Turns a function that returns one number into a reader of one value without labels; None means no value."""

    def values(node: N) -> Iterable[Value]:
        value = read(node)
        return () if value is None else ((value, {}),)

    return values


def declare(rows: Sequence[Row[N]]) -> Callable[[N], None]:
    """Declares the metrics of rows that have `read`; returns a function that sets the object to read them from."""
    declared: list[tuple[Observed, Callable[[N], Iterable[Value]]]] = [
        (observed(row.name, row.kind, row.unit, row.help), row.read)
        for row in rows
        if row.kind != "histogram" and row.read is not None
    ]

    def watch(node: N) -> None:
        for metric, read in declared:
            metric.read_by(lambda read=read: read(node))  # type: ignore[misc]  # mypy does not infer a default's type

    return watch


def markdown(
    rows: Sequence[Row[N]], absent: Mapping[str, str], named: Callable[[str], str] = lambda name: name
) -> list[str]:
    """Returns the lines of a table in Markdown: the metrics, then those of Kafka's that are `absent`, with the reason.

    `named` shortens Kafka's names.
    """
    lines = ["| ours | kind, unit | Kafka's | what it is |", "|---|---|---|---|"]
    for row in rows:
        theirs = "<br>".join(f"`{name}`" for name in map(named, row.kafka)) or "–"
        lines.append(f"| `{row.name}` | {row.kind}, {row.unit} | {theirs} | {row.help} |")
    return [*lines, *(f"| – | | `{name}` | {why} |" for name, why in absent.items())]
