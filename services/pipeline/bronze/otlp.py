"""Parses what an OpenTelemetry collector's file exporter writes: OTLP as JSON, one export a line.

In OTLP/JSON (protocol 1.x) ids are hexadecimal, times are ns as text, and each value names its own type. Events and
links of a span are not kept. Lines of logs and metrics, which a collector may write into the same file, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import md5
from typing import Any, Final

import msgspec

__all__ = ["LINE_CLAIM", "rows_of"]

LINE_CLAIM: Final = "a line of "
"""The first words of a quarantine claim about a damaged line."""
SHOWN_MAX: Final = 60
"""How many characters of a damaged line its quarantine claim quotes."""
_ERROR_CODES: Final = ("2", "STATUS_CODE_ERROR")
_Text = msgspec.Raw
"""A value that is read as text, whether a number is quoted or not."""


class _Value(msgspec.Struct, rename="camel"):
    string_value: _Text = _Text()
    bool_value: _Text = _Text()
    int_value: _Text = _Text()
    double_value: _Text = _Text()
    bytes_value: _Text = _Text()
    array_value: _Text = _Text()
    kvlist_value: _Text = _Text()


class _Pair(msgspec.Struct):
    key: _Text = _Text()
    value: _Value | None = None


class _Status(msgspec.Struct):
    code: _Text = _Text()


class _Span(msgspec.Struct, rename="camel"):
    trace_id: _Text = _Text()
    span_id: _Text = _Text()
    parent_span_id: _Text = _Text()
    name: _Text = _Text()
    start_time_unix_nano: _Text = _Text()
    end_time_unix_nano: _Text = _Text()
    attributes: Sequence[_Pair] | None = None
    status: _Status | None = None


class _Scope(msgspec.Struct):
    spans: Sequence[_Span] | None = None


class _Resource(msgspec.Struct):
    attributes: Sequence[_Pair] | None = None


class _OfResource(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: Sequence[_Scope] | None = None


class _Export(msgspec.Struct, rename="camel"):
    resource_spans: Sequence[_OfResource] | None = None
    resource_logs: _Text = _Text()
    resource_metrics: _Text = _Text()


_DECODER: Final = msgspec.json.Decoder(_Export)


def rows_of(line: bytes) -> Iterator[dict[str, Any]]:
    """Yields the spans of a line: all fields as text, attributes and resource as JSON objects of texts.

    A line that is not an export of spans is a row with `_corrupt`, which quotes how the line begins, and `raw`.
    """
    text = line.rstrip(b"\r")
    if not text.strip(b" "):
        return
    try:
        export = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        yield _damaged(line, text, "is no OTLP export in JSON")
        return
    if export.resource_spans is None and _text(export.resource_logs) is _text(export.resource_metrics) is None:
        yield _damaged(line, text, "has no resourceSpans")
    for each in export.resource_spans or ():
        resource = _attributes(None if each.resource is None else each.resource.attributes)
        for scope in each.scope_spans or ():
            for span in scope.spans or ():
                yield _row(span, resource)


def _row(span: _Span, resource: dict[str, str] | None) -> dict[str, Any]:
    attributes, process = _attributes(span.attributes), resource or {}
    return {
        "trace_id": _text(span.trace_id),
        "span_id": _text(span.span_id),
        "parent_span_id": _text(span.parent_span_id),
        "name": _text(span.name),
        "service": process.get("service.name"),
        "instance": process.get("service.instance.id"),
        "start_ns": _text(span.start_time_unix_nano),
        "end_ns": _text(span.end_time_unix_nano),
        "error": span.status is not None and _text(span.status.code) in _ERROR_CODES,
        "attributes": None if attributes is None else json.dumps(attributes),
        "resource": None if resource is None else json.dumps(resource),
    }


def _attributes(pairs: Iterable[_Pair] | None) -> dict[str, str] | None:
    """Returns OTLP's key-value pairs as texts; of a key that occurs twice the last one."""
    if pairs is None:
        return None
    keyed = ((_text(pair.key), pair.value or _Value()) for pair in pairs)
    return {key: next(filter(None, map(_text, msgspec.structs.astuple(value))), "") for key, value in keyed if key}


def _text(value: _Text) -> str | None:
    """Returns a value as text, lists and objects as JSON; None if it is absent or null."""
    raw = bytes(value)
    if raw in (b"", b"null"):
        return None
    return str(json.loads(raw)) if raw[:1] == b'"' else msgspec.json.format(raw, indent=-1).decode()


def _damaged(line: bytes, text: bytes, what: str) -> dict[str, Any]:
    # The digest distinguishes two damaged lines that begin alike.
    digest = md5(text, usedforsecurity=False).hexdigest()
    shown = text.decode(errors="replace")[:SHOWN_MAX]
    return {"_corrupt": f"{LINE_CLAIM}{len(text)} bytes (md5 {digest}) {what}: {shown}", "raw": line}
