"""Messages and methods of the services, by their descriptors: what JSON says, and where it is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass

from quorate.cli.failures import Misused

__all__ = ["Method", "method_of", "parsed"]

Method: TypeAlias = Any
"""A MethodDescriptor; the stubs of protobuf's two implementations differ."""
PROBLEMS: Final = (ParseError, AttributeError, TypeError, ValueError)
"""The errors of ParseDict."""
_PREFIX: Final = re.compile(r"^(Failed to parse \S+ field: )+")


def parsed(shape: Any, document: Any, *, at: str = "") -> Any:  # Any: a descriptor, JSON values, a message
    """Returns the protobuf message that a JSON document says. `shape` is the message's descriptor.

    Raises Misused with the path of what is wrong, which begins with `at`, or with the message's name.
    """
    path = at or shape.name
    # An empty list in place of an object is no error to ParseDict.
    for where, why in _misfits(shape, document, path, with_values=False):
        raise Misused(f"{where}: {why}")
    try:
        return ParseDict(document, GetMessageClass(shape)())
    except PROBLEMS as problem:
        for where, why in _misfits(shape, document, path, with_values=True):
            raise Misused(f"{where}: {why}") from None
        raise Misused(f"{path}: {_words(problem)}") from None


def method_of(channel: Any, method: Method) -> Any:
    """Returns gRPC's callable for a method on a channel; each side is one message or a stream, by the descriptor."""
    forms = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    return forms[method.client_streaming, method.server_streaming](
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )


def _misfits(shape: Any, document: Any, path: str, *, with_values: bool) -> Iterator[tuple[str, str]]:
    """Yields each path at which a document is not as a message is, and why; `with_values`, also of single values."""
    if not isinstance(document, dict):
        yield path, f"{shape.name} is an object; this is {document!r}"
        return
    fields = {name: each for each in shape.fields for name in (each.name, each.json_name)}
    for key, value in document.items():
        where, field = f"{path}.{key}", fields.get(key)
        if field is None:
            yield where, f"{shape.name} has no such field; it has {', '.join(each.name for each in shape.fields)}"
        elif field.message_type is not None and not _is_told_otherwise(field.message_type):
            if not field.is_repeated:
                if value is not None:
                    yield from _misfits(field.message_type, value, where, with_values=with_values)
            elif isinstance(value, list):
                for place, each in enumerate(value):
                    yield from _misfits(field.message_type, each, f"{where}[{place}]", with_values=with_values)
            else:
                yield where, f"it is a list; this is {value!r}"
        elif with_values:
            try:
                ParseDict({key: value}, GetMessageClass(shape)())
            except PROBLEMS as problem:
                yield where, _words(problem)


def _is_told_otherwise(shape: Any) -> bool:
    """Returns whether JSON has another form for a message than an object of its fields: maps, and google's own."""
    return bool(shape.GetOptions().map_entry) or shape.full_name.startswith("google.protobuf.")


def _words(problem: Exception) -> str:
    return _PREFIX.sub("", str(problem)).splitlines()[0].rstrip(".")
