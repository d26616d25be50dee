"""Hypothesis strategies that several folders use: any message of the schema, in any version."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from hypothesis import strategies as st

import kraft.api
import kraft.control
import kraft.metadata
import kraft.protocol
from kraft import Message
from quorate.wire.schema import Field, FieldType, Layout, layout_of, struct_class

_INTS = {
    FieldType.INT8: (7, True),
    FieldType.INT16: (15, True),
    FieldType.INT32: (31, True),
    FieldType.INT64: (63, True),
}
_INTS |= {FieldType.UINT16: (16, False), FieldType.UINT32: (32, False)}


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Every top-level message of the schema: records, control records, headers, requests and responses."""
    found = []
    for package in (kraft.metadata, kraft.control, kraft.api, kraft.protocol):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.endswith(("_pb2", "_pb2_grpc")):
                loaded = importlib.import_module(f"{package.__name__}.{module.name}")
                found += [
                    value
                    for value in vars(loaded).values()
                    if isinstance(value, type) and issubclass(value, Message) and value is not Message
                ]
    return tuple(sorted(found, key=lambda message: message.__qualname__))


def any_message_class() -> st.SearchStrategy[type[Message]]:
    """One of all messages."""
    return st.sampled_from(all_messages())


@st.composite
def message_in_version(draw: st.DrawFn) -> tuple[Message, int]:
    """A message with values in every field that its version has, and that version."""
    message = draw(any_message_class())
    shape = layout_of(message)
    version = draw(st.sampled_from(shape.versions))
    return draw(instance(shape, version)), version


@st.composite
def instance(draw: st.DrawFn, shape: Layout, version: int) -> Message:
    """A message or nested struct of `shape` that `version` can carry."""
    present = [field for field in shape.fields if field.in_version(version)]
    values = {field.name: draw(value_of(field, version)) for field in present if draw(st.integers(0, 3))}
    if not shape.is_flexible(version):
        return struct_class(shape)(**values)
    unknown = draw(_unknown_tags(frozenset(field.tag for field in present)))
    return struct_class(shape)(**values, unknown_tags=tuple(sorted(unknown.items())))


@cache
def _unknown_tags(taken: frozenset[int | None]) -> st.SearchStrategy[dict[int, bytes]]:
    """Tagged fields that the schema does not know."""
    return st.dictionaries(
        st.integers(0, 20_000).filter(lambda tag: tag not in taken), st.binary(max_size=5), max_size=2
    )


@cache  # a strategy is examined where it is first drawn from, which takes longer than the draw
def value_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    """A value that the field can hold in `version`."""
    one = _one(field, version)
    value: st.SearchStrategy[Any] = st.lists(one, max_size=3).map(tuple) if field.array else one
    return st.none() | value if field.nullable_in(version) else value


def _one(field: Field, version: int) -> st.SearchStrategy[Any]:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None
            return instance(field.struct, version)
        case FieldType.BOOL:
            return st.booleans()
        case FieldType.FLOAT64:
            return st.floats(allow_nan=False)
        case FieldType.UUID:
            return st.binary(min_size=16, max_size=16)
        case FieldType.STRING:
            return st.text(max_size=8) | st.just("a" * 200)
        case FieldType.BYTES | FieldType.RECORDS:
            return st.binary(max_size=8) | st.just(bytes(200))
        case kind:
            bits, signed = _INTS[kind]
            return st.integers(-(1 << bits) if signed else 0, (1 << bits) - 1)
