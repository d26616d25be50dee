"""Two libraries that speak Kafka's protocol and know nothing of ours, asked to read and to write the same messages.

`kio` has dataclasses that were generated from Kafka's message JSON; `kafka-python` interprets the JSON itself.
Both keep the fields in the order of the JSON, so a field is found by its place, and its name has to be alike.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import pkgutil
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Protocol
from uuid import UUID

import kafka.protocol
from kafka.protocol.api_message import ApiMessage
from kio.index import UnknownAPIKey, UnknownEntity, load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kraft import Message
from quorate.wire.schema import ZERO_UUID, Field, Layout, layout_of, struct_class

UNSAID: Final = object()
"""The judge leaves it open what stands in a field that is not set."""

# Any, here and below: classes and values of the others are of types that they do not export.


@dataclass(frozen=True, slots=True)
class Their:
    """A field as a judge has it.

    `struct` is the judge's own class of it, None for a plain value. `default` is in the judge's terms, or UNSAID.
    """

    name: str
    kind: str
    struct: Any
    nullable: bool
    default: Any


class Judge(Protocol):
    """Another library, brought to one form: its classes are made and taken apart field by field."""

    name: str
    default_structs_are_none: bool
    """A tagged struct that is not there is None here, where Kafka has the struct of all defaults."""

    def knows(self, message: type[Message], version: int) -> Any | None:
        """Its class for `message` in `version`, or None."""

    def fields(self, theirs: Any, version: int) -> list[Their]:
        """The fields of one of its classes, in the order of Kafka's JSON."""

    def make(self, theirs: Any, version: int, values: Mapping[str, Any]) -> Any:
        """An instance of one of its classes."""

    def fit(self, field: Their, value: Any) -> Any:
        """The plain value itself, or a near one that the judge can express."""

    def give(self, field: Their, value: Any) -> Any:
        """A plain value of ours as the judge's."""

    def take(self, field: Their, value: Any) -> Any:
        """The other way."""

    def encode(self, theirs: Any, version: int, value: Any) -> bytes:
        """The bytes that it writes."""

    def decode(self, theirs: Any, version: int, data: bytes) -> Any:
        """What it reads."""


# -- messages between the two --------------------------------------------------------------------------


def paired(judge: Judge, theirs: Any, shape: Layout, version: int) -> Iterator[tuple[Field, Their]]:
    """Our fields and the judge's by their place in the JSON; as many there as here, and named alike."""
    ours = [field for field in shape.fields if field.in_version(version)]
    for field, their in zip(ours, judge.fields(theirs, version), strict=True):
        assert _alike(field.name, their.name), (shape, version, field.name, their.name)
        yield field, their


def fitted(judge: Judge, theirs: Any, shape: Layout, message: Message, version: int) -> Message:
    """`message` without what the judge cannot express: unknown tags, and values beyond its types."""
    values = {}
    for ours, their in paired(judge, theirs, shape, version):
        one = _plain_or_struct(judge, their, ours, version, plain=judge.fit, struct=fitted)
        values[ours.name] = _each(getattr(message, ours.name), array=ours.array, one=one)
    return struct_class(shape)(**values)


def given(judge: Judge, theirs: Any, shape: Layout, message: Message, version: int) -> Any:
    """A message of ours as the judge's own."""
    values = {}
    for ours, their in paired(judge, theirs, shape, version):
        one = _plain_or_struct(judge, their, ours, version, plain=judge.give, struct=given)
        value = getattr(message, ours.name)
        if _may_be_none(judge, ours) and value == struct_class(ours.struct)():
            value = None
        values[their.name] = _each(value, array=ours.array, one=one)
    return judge.make(theirs, version, values)


def taken(judge: Judge, theirs: Any, shape: Layout, message: Any, version: int) -> Message:
    """A message of the judge's as ours."""
    values = {}
    for ours, their in paired(judge, theirs, shape, version):
        one = _plain_or_struct(judge, their, ours, version, plain=judge.take, struct=taken)
        value = getattr(message, their.name)
        if _may_be_none(judge, ours) and value is None:
            values[ours.name] = struct_class(ours.struct)()
        else:
            values[ours.name] = _each(value, array=ours.array, one=one)
    return struct_class(shape)(**values)


def _plain_or_struct(
    judge: Judge, their: Their, ours: Field, version: int, *, plain: Callable[..., Any], struct: Callable[..., Any]
) -> Callable[[Any], Any]:
    inner = ours.struct
    if inner is None:
        return lambda value: plain(their, value)
    return lambda value: None if value is None else struct(judge, their.struct, inner, value, version)


def _may_be_none(judge: Judge, field: Field) -> bool:
    return judge.default_structs_are_none and field.default is ...


def _each(value: Any, *, array: bool, one: Callable[[Any], Any]) -> Any:
    if not array:
        return one(value)
    return None if value is None else tuple(one(item) for item in value)


def _alike(ours: str, theirs: str) -> bool:
    """kio leaves out a unit that the type has, and does not hide Python's `id`; kafka-python cuts one name short."""
    return theirs.removesuffix("_") in (ours, ours.removesuffix("_ms")) or ours.endswith(f"_{theirs}")


# -- kio -----------------------------------------------------------------------------------------------

_LATEST: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_MS: Final = timedelta(milliseconds=1)
_LONGEST_MS: Final = (1 << 63) // 1000 - 1
"""kio counts times in microseconds, in 64 bits."""


class Kio:
    """kio: a module of dataclasses for each message and version."""

    name = "kio"
    default_structs_are_none = False

    def knows(self, message: type[Message], version: int) -> Any | None:
        key, name = layout_of(message).key, message.__name__
        try:
            if key is not None and name.endswith("Request"):
                return load_request_schema(key, version)
            if key is not None and name.endswith("Response"):
                return load_response_schema(key, version)
            return load_entity_schema(_snake(name), version, EntityType.data)
        except (UnknownAPIKey, UnknownEntity):
            return None

    def fields(self, theirs: Any, version: int) -> list[Their]:
        return [_kio_field(field) for field in dataclasses.fields(theirs)]

    def make(self, theirs: Any, version: int, values: Mapping[str, Any]) -> Any:
        return theirs(**values)

    def fit(self, field: Their, value: Any) -> Any:
        match field.kind:
            case "error_code":
                return value if value in ErrorCode.__members__.values() else int(ErrorCode.none)
            case "timedelta_i64":
                return max(-_LONGEST_MS, min(value, _LONGEST_MS))
            case "datetime_i64":  # whole seconds, from 1970 on
                return abs(value) // 1000 % _LATEST * 1000
            case _:
                return value

    def give(self, field: Their, value: Any) -> Any:
        match field.kind:
            case "error_code":
                return ErrorCode(value)
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=value)
            case "datetime_i64":
                return None if value == -1 and field.nullable else datetime.fromtimestamp(value / 1000, UTC)
            case "uuid":
                return None if value == ZERO_UUID else UUID(bytes=value)
            case _:
                return value

    def take(self, field: Their, value: Any) -> Any:
        match field.kind:
            case "error_code":
                return int(value)
            case "timedelta_i32" | "timedelta_i64":
                return value // _MS
            case "datetime_i64":
                return -1 if value is None else round(value.timestamp() * 1000)
            case "uuid":
                return ZERO_UUID if value is None else value.bytes
            case _:
                return value

    def encode(self, theirs: Any, version: int, value: Any) -> bytes:
        out = io.BytesIO()
        entity_writer(theirs)(out, value)
        return out.getvalue()

    def decode(self, theirs: Any, version: int, data: bytes) -> Any:
        found, size = entity_reader(theirs)(data, 0)
        assert size == len(data), (size, len(data))
        return found


def _kio_field(field: dataclasses.Field[Any]) -> Their:
    given = _without_none(field.type)
    inner = _without_none(typing.get_args(given)[0]) if typing.get_origin(given) is tuple else given
    struct = inner if dataclasses.is_dataclass(inner) else None
    kind = "struct" if struct else field.metadata["kafka_type"]
    default = UNSAID if field.default is dataclasses.MISSING else field.default
    return Their(field.name, kind, struct, given is not field.type, default)


def _without_none(annotation: Any) -> Any:
    options = [each for each in typing.get_args(annotation) if each is not type(None)]
    return options[0] if len(options) == 1 and type(None) in typing.get_args(annotation) else annotation


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# -- kafka-python --------------------------------------------------------------------------------------


class KafkaPython:
    """kafka-python: one class for each message, of all versions."""

    name = "kafka-python"
    default_structs_are_none = True

    def knows(self, message: type[Message], version: int) -> Any | None:
        found = _kafka_python_classes().get(message.__name__)
        if found is None:
            return None
        first, last = found.valid_versions
        return found if first <= version <= last else None

    def fields(self, theirs: Any, version: int) -> list[Their]:
        return [
            Their(
                field.name,
                field.type_str.removeprefix("[]"),
                field.data_class if field.is_struct() or field.is_struct_array() else None,
                field.nullable_for_version_q(version),
                UNSAID if field.is_struct() else field.default,
            )
            for field in theirs.fields.values()
            if field.for_version_q(version)
        ]

    def make(self, theirs: Any, version: int, values: Mapping[str, Any]) -> Any:
        # An empty tuple is not its default, an empty list is.
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return theirs(version=version, **lists)

    def fit(self, field: Their, value: Any) -> Any:
        return value

    def give(self, field: Their, value: Any) -> Any:
        match field.kind:
            case "uuid":
                return None if value == ZERO_UUID else UUID(bytes=value)
            case "bitfield":
                return {bit for bit in range(32) if value >> bit & 1}
            case _:
                return value

    def take(self, field: Their, value: Any) -> Any:
        match field.kind:
            case "uuid":
                return ZERO_UUID if value is None else value.bytes
            case "bitfield":  # a set of bits; None for the highest one alone
                unsigned = sum(1 << bit for bit in ({31} if value is None else value))
                return unsigned - (unsigned >> 31 << 32)
            case _:
                return value

    def encode(self, theirs: Any, version: int, value: Any) -> bytes:
        return bytes(value.encode(version=version))

    def decode(self, theirs: Any, version: int, data: bytes) -> Any:
        # Not its own `decode`: an ApiVersionsResponse with an error is read as version 0 there, whatever is asked.
        return ApiMessage.decode.__func__(theirs, data, version=version)


@cache
def _kafka_python_classes() -> Mapping[str, Any]:
    found = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, f"{kafka.protocol.__name__}."):
        if ".old" in module.name or module.name.endswith(".generate_stubs"):
            continue  # hand-written classes of older protocols, and a tool
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage:
                found[name] = value
    return found


JUDGES: Final[tuple[Judge, ...]] = (Kio(), KafkaPython())
