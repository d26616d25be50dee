"""Draws a trace as a waterfall: text for a terminal, SVG for a document.

CreateTopics            controller-2  ├──────────────────────────────────────┤   6.1 ms
  write                 controller-2   ├────────┤                                1.2 ms  epoch=3 offset=17
    commit              quorum-2                ├──────────────────────────┤     4.2 ms  epoch=3 end_offset=18
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from rich.text import Text

from quorate.traces import SpanData, TreeRow, tree

__all__ = ["waterfall_lines", "waterfall_svg", "waterfall_text"]

WIDTH: Final = 120
BAR_WIDTH_MIN: Final = 20

SHOWN: Final = {
    "kraft.epoch": "epoch",
    "kraft.leader.epoch": "epoch",
    "kraft.base_offset": "offset",
    "kraft.end_offset": "end_offset",
    "kraft.record_count": "records",
    "kraft.partition": "partition",
    "kraft.replica": "replica",
    "kraft.principal": "by",
    "kraft.broker.id": "broker",
    "kraft.broker.state": "state",
    "kraft.reason": "reason",
    "kraft.error": "error",
}
"""Span attributes that are shown in the line, and their short names."""

TERMINAL_COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green")
SVG_COLOURS: Final = ("#2f7ed8", "#3a9d5d", "#b455b6", "#d08a1d", "#5b5bd6", "#139fa0", "#a0522d")
SVG_ERROR: Final = "#d03a3a"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpanLine:
    """One line of the waterfall, for one span; `left` and `right` are fractions of the trace's duration."""

    name: str
    who: str
    duration: str
    notes: str
    left: float
    right: float
    colour: int
    error: bool


def waterfall_lines(spans: Sequence[SpanData], width: int = WIDTH) -> list[str]:
    """Returns the waterfall as plain text lines of about `width` columns, with a heading; empty without spans.

    Each span is below its parent; a span whose parent is missing is marked.
    """
    return [text.plain for text in _texts(spans, width)]


def waterfall_text(spans: Sequence[SpanData], width: int = WIDTH) -> Text:
    """Returns the waterfall as coloured text for a rich console, with one colour per service."""
    return Text("\n").join(_texts(spans, width))


def waterfall_svg(spans: Sequence[SpanData]) -> str:
    """Returns the waterfall as an SVG document for light and dark backgrounds; an empty string without spans."""
    lines = _lines(spans)
    if not lines:
        return ""
    name_x, who_x = 12, 12 + 7.3 * (max(len(line.name) for line in lines) + 2)
    bar_x = who_x + 7.3 * (max(len(line.who) for line in lines) + 2)
    end_x = bar_x + 480
    notes_x = end_x + 7.3 * 10
    width = notes_x + 7.3 * (max(len(line.notes) for line in lines) + 2)
    height = 22 * len(lines) + 66
    parts = [_svg_head(width, height), _svg_text(name_x, 22, _heading(spans), "h")]
    parts += _svg_grid(_total_ns(spans), bar_x, end_x, height)
    for number, line in enumerate(lines):
        y = 22 * number + 64
        left, right = bar_x + line.left * 480, bar_x + line.right * 480
        parts += [
            _svg_text(name_x, y, line.name, "e" if line.error else ""),
            _svg_text(who_x, y, line.who, "q"),
            f'<rect x="{left:.1f}" y="{y - 10}" width="{max(right - left, 2):.1f}" height="12" rx="2" '
            f'fill="{SVG_ERROR if line.error else SVG_COLOURS[line.colour % len(SVG_COLOURS)]}">'
            f"<title>{_xml(f'{line.name.strip()} {line.duration} {line.notes}'.strip())}</title></rect>",
            _svg_text(notes_x - 10, y, line.duration, "r"),
            _svg_text(notes_x, y, line.notes, "e" if line.error else "q"),
        ]
    return "\n".join([*(part for part in parts if part), "</svg>"]) + "\n"


def _lines(spans: Sequence[SpanData]) -> list[_SpanLine]:
    if not spans:
        return []
    start_ns, total_ns = min(span.start_ns for span in spans), _total_ns(spans)
    services = sorted({span.service for span in spans})
    return [_line(row, start_ns, total_ns, services.index(row.span.service)) for row in tree(spans)]


def _line(row: TreeRow, start_ns: int, total_ns: int, colour: int) -> _SpanLine:
    span = row.span
    return _SpanLine(
        # Only the method of an RPC's name, as the service is in the next column.
        name="  " * row.depth + _printable(span.name.rpartition("/")[2]),
        who=_who(span),
        duration=_milliseconds(span.end_ns - span.start_ns),
        notes=" ".join(_notes(row)),
        left=(span.start_ns - start_ns) / total_ns,
        right=(span.end_ns - start_ns) / total_ns,
        colour=colour,
        error=span.error,
    )


def _total_ns(spans: Sequence[SpanData]) -> int:
    """Returns the time from the first start to the last end in ns; at least 1, as it is a divisor."""
    return max(1, max(span.end_ns for span in spans) - min(span.start_ns for span in spans))


def _who(span: SpanData) -> str:
    """Returns a span's process as `controller-2`, whether its instance is named `controller-2` or only `2`."""
    if not span.service or not span.instance or span.instance.startswith(span.service):
        return _printable(span.instance or span.service)
    return _printable(f"{span.service}-{span.instance}")


def _notes(row: TreeRow) -> Iterator[str]:
    attributes = row.span.attributes
    for key, word in SHOWN.items():
        if key in attributes:
            yield f"{word}={_printable(str(attributes[key]))}"
    if row.span.error:
        yield _printable(str(attributes.get("error.type", "ERROR")))
    if row.is_orphan:
        yield "(parent missing)"


def _milliseconds(duration_ns: int) -> str:
    """Formats a duration in ms, with fewer decimals for longer ones.

    >>> [_milliseconds(ns) for ns in (12_000, 6_100_000, 1_234_000_000)]
    ['0.01 ms', '6.1 ms', '1234 ms']
    """
    ms = duration_ns / 1e6
    places = 2 if ms < 1 else 1 if ms < 100 else 0
    return f"{ms:.{places}f} ms"


def _heading(spans: Sequence[SpanData]) -> str:
    known = {span.span_id: span for span in spans}.values()
    services = {_who(span) for span in known}
    counts = [(len(known), "span"), (len(services), "process")]
    totals = [f"{count} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}" for count, noun in counts]
    return " · ".join((f"trace {spans[0].trace_id}", _milliseconds(_total_ns(spans)), *totals))


def _texts(spans: Sequence[SpanData], width: int) -> list[Text]:
    lines = _lines(spans)
    if not lines:
        return []
    name_width = max(len(line.name) for line in lines)
    who_width = max(len(line.who) for line in lines)
    duration_width = max(len(line.duration) for line in lines)
    notes_width = max(len(line.notes) for line in lines)
    bar_width = max(BAR_WIDTH_MIN, width - name_width - who_width - duration_width - notes_width - 7)
    texts = [Text(_heading(spans), "bold")]
    for line in lines:
        colour = "red" if line.error else TERMINAL_COLOURS[line.colour % len(TERMINAL_COLOURS)]
        text = Text.assemble(
            (line.name.ljust(name_width), "red" if line.error else ""),
            "  ",
            (line.who.ljust(who_width), colour),
            "  ",
            (_bar(line, bar_width), colour),
            " ",
            line.duration.rjust(duration_width),
            "  ",
            (line.notes, "red" if line.error else "dim"),
        )
        text.rstrip()
        texts.append(text)
    return texts


def _bar(line: _SpanLine, width: int) -> str:
    """Draws a span as a bar within `width` columns; the bar has at least one column."""
    left = min(int(line.left * width), width - 1)
    right = max(left + 1, min(width, round(line.right * width)))
    size = right - left
    drawn = "│" if size == 1 else "├" + "─" * (size - 2) + "┤"
    return (" " * left + drawn).ljust(width)


def _svg_head(width: float, height: float) -> str:
    style = (
        "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1f2328;white-space:pre}"
        ".h{font-weight:bold}.q{fill:#656d76}.r{text-anchor:end}.t{fill:#656d76;font-size:10px;text-anchor:middle}"
        f".e{{fill:{SVG_ERROR}}}line{{stroke:#d0d7de}}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.q,.t{fill:#8d96a0}line{stroke:#30363d}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">\n<style>{style}</style>'
    )


def _svg_grid(total_ns: int, left: float, right: float, height: float) -> list[str]:
    """Returns the SVG of a grid line at each quarter of the time, labelled in ms."""
    parts = []
    for quarter in range(5):
        x = left + (right - left) * quarter / 4
        parts.append(f'<line x1="{x:.1f}" y1="46" x2="{x:.1f}" y2="{height - 12:.0f}"/>')
        parts.append(_svg_text(x, 42, _milliseconds(total_ns * quarter // 4) if quarter else "0", "t"))
    return parts


def _svg_text(x: float, y: float, words: str, kind: str) -> str:
    if not words:
        return ""
    indent = len(words) - len(words.lstrip(" "))
    place = x + 7.3 * indent
    return f'<text x="{place:.1f}" y="{y}"{f" class={quoteattr(kind)}" if kind else ""}>{_xml(words.strip())}</text>'


def _xml(words: str) -> str:
    return escape(_printable(words))


def _printable(words: str) -> str:
    """Replaces characters that would break a line or an XML document by `?`; names come from any client.

    >>> _printable("a\\x00b\\nc")
    'a?b?c'
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]", "?", words)
