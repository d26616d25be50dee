"""A trace as spans and the tree they make: what the trace store keeps and the waterfall draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["AttributeValue", "Span", "TreeRow", "tree"]

AttributeValue: TypeAlias = str | bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span. Ids are lower-case hexadecimal, 32 and 16 digits; times are ns since 1970."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str
    service: str = ""
    instance: str = ""
    start_ns: int
    end_ns: int
    error: bool = False
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A span at its place: how many spans stand above it, and whether the one it hangs on is missing."""

    span: Span
    depth: int
    is_orphan: bool = False


def tree(spans: Sequence[Span]) -> tuple[TreeRow, ...]:
    """The spans in the order in which they are shown: each before its children, siblings by start.

    A span whose parent is not among them stands under the first root, flagged: its parent may still be on its way.
    Without a root the orphans are the top. A span given twice counts once. Spans that hang on each other in a circle,
    which only a broken client makes, are orphans too.
    """
    known = {span.span_id: span for span in spans}
    children: dict[str, list[Span]] = {}
    for span in sorted(known.values(), key=_place):
        children.setdefault(span.parent_span_id, []).append(span)
    roots = children.pop("", [])
    rows = [row for root in roots for row in _below(root, 0, children)]
    orphans = [span for parent, group in children.items() if parent not in known for span in group]
    for orphan in sorted(orphans, key=_place):
        rows += _below(orphan, 1 if roots else 0, children, is_orphan=True)
    shown = {row.span.span_id for row in rows}
    rows += [
        TreeRow(span, 1 if roots else 0, True)
        for span in sorted(known.values(), key=_place)
        if span.span_id not in shown
    ]
    assert len(rows) == len(known), (len(rows), len(known))
    return tuple(rows)


def _place(span: Span) -> tuple[int, int, str]:
    return span.start_ns, -span.end_ns, span.span_id


def _below(
    top: Span, depth: int, children: Mapping[str, Sequence[Span]], *, is_orphan: bool = False
) -> Iterator[TreeRow]:
    """`top` and all under it. Iterative: a trace may be deeper than Python's stack."""
    waiting = [TreeRow(top, depth, is_orphan)]
    while waiting:
        row = waiting.pop()
        yield row
        waiting += [TreeRow(child, row.depth + 1) for child in reversed(children.get(row.span.span_id, ()))]
