"""Trace spans, and the tree of a trace as the waterfall view draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["AttributeValue", "SpanData", "TreeRow", "tree"]

AttributeValue: TypeAlias = str | bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanData:
    """One trace span. Ids are lower-case hexadecimal, 32 and 16 digits; times are in ns since 1970."""

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
    """One row of a trace tree: a span, its number of ancestors, and whether its parent is missing."""

    span: SpanData
    depth: int
    is_orphan: bool = False


def tree(spans: Sequence[SpanData]) -> tuple[TreeRow, ...]:
    """Returns the spans in display order: each before its children, siblings by start time.

    A span with a missing parent is placed under the first root and flagged: the parent may still arrive. Without a root
    such spans are at the top. A repeated span counts once. Spans in a cycle of parents, which only a broken client
    makes, are treated as having no parent.
    """
    known = {span.span_id: span for span in spans}
    children: dict[str, list[SpanData]] = {}
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


def _place(span: SpanData) -> tuple[int, int, str]:
    return span.start_ns, -span.end_ns, span.span_id


def _below(
    top: SpanData, depth: int, children: Mapping[str, Sequence[SpanData]], *, is_orphan: bool = False
) -> Iterator[TreeRow]:
    """Yields `top` and all its descendants. Iterative: a trace may be deeper than Python's stack."""
    waiting = [TreeRow(top, depth, is_orphan)]
    while waiting:
        row = waiting.pop()
        yield row
        waiting += [TreeRow(child, row.depth + 1) for child in reversed(children.get(row.span.span_id, ()))]
