"""What Kafka's message JSON says of a message beside what our schema says of it, and every difference.

Both sides are brought into one form, for the versions that the release still speaks: a field that the JSON has
since version 1 of a message whose first version is 3 was, for us, always there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from kraft import errors_pb2
from quorate.wire.schema import FieldType, Layout

Json = Mapping[str, Any]

FOREVER: Final = 1 << 15
"""Above every version: a version is an int16."""
AT_MEMBERS_DEFAULTS: Final = "its members' defaults"
STRUCT: Final = "struct"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFacts:
    """What the wire needs to know of a field. The attributes' names are those of the differences."""

    name: str  # in lower case and without underscores
    type: str
    struct: str | None
    since: int
    until: int
    tag: int | None
    nullable_since: int | None
    default: Any
    ignorable: bool
    map_key: bool
    is_error_code: bool
    never_compact: bool
    members: tuple[FieldFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Versions from first to last, both inclusive."""

    first: int
    last: int

    def within(self, other: Range) -> Range:
        return Range(first=max(self.first, other.first), last=min(self.last, other.last))

    def __bool__(self) -> bool:
        return self.first <= self.last


def versions(text: str) -> Range | None:
    """A range of versions as the JSON writes it: "3", "3-5", "3+" or "none"."""
    if text == "none":
        return None
    first, dash, last = text.removesuffix("+").partition("-")
    return Range(first=int(first), last=FOREVER if text.endswith("+") else int(last if dash else first))


def differences(document: Json, layout: Layout, *, exact: bool) -> list[str]:
    """Everything in which a message of the schema is not as the JSON says; nothing when they agree.

    `exact` is false for a release older than the schema, which may have more versions than that release.
    """
    theirs = versions(document["validVersions"])
    assert theirs is not None, document["name"]
    flexible = versions(document["flexibleVersions"])
    flexible_since = theirs.last + 1 if flexible is None else flexible.first
    said = list(_of_the_message(document, layout, theirs, flexible_since, exact=exact))
    kafka = tuple(_from_json(document["fields"], _common_structs(document), theirs))
    ours = tuple(_from_layout(layout, theirs))
    return [f"{document['name']}{text}" for text in (*said, *_of_the_fields("", kafka, ours))]


def _of_the_message(
    document: Json, layout: Layout, theirs: Range, flexible_since: int, *, exact: bool
) -> Iterator[str]:
    if document.get("apiKey") != layout.key:
        yield f": the key is {document.get('apiKey')} in Kafka, {layout.key} here"
    if theirs.first != layout.first_version:
        yield f": the first version is {theirs.first} in Kafka, {layout.first_version} here"
    if theirs.last > layout.last_version:
        yield f": new in Kafka: versions {layout.last_version + 1} to {theirs.last}; here they end"
    if theirs.last < layout.last_version and exact:
        yield f": the last version is {theirs.last} in Kafka, {layout.last_version} here"
    if flexible_since != layout.flexible_since:
        yield f": flexible since {flexible_since} in Kafka, since {layout.flexible_since} here"


def _of_the_fields(path: str, kafka: Sequence[FieldFacts], ours: Sequence[FieldFacts]) -> Iterator[str]:
    """The differences of two lists of fields: what one lacks, the order, then field by field."""
    theirs_by_name = {field.name: field for field in kafka}
    ours_by_name = {field.name: field for field in ours}
    for name in [name for name in theirs_by_name if name not in ours_by_name]:
        yield f"{path}.{name}: new in Kafka (since version {theirs_by_name[name].since}); not here"
    for name in [name for name in ours_by_name if name not in theirs_by_name]:
        yield f"{path}.{name}: in no version of Kafka's; here"
    common = [name for name in theirs_by_name if name in ours_by_name]
    order = [name for name in ours_by_name if name in theirs_by_name]
    if common != order:
        yield f"{path}: the order is {common} in Kafka, {order} here"
    for name in common:
        yield from _of_a_field(f"{path}.{name}", theirs_by_name[name], ours_by_name[name])


def _of_a_field(path: str, kafka: FieldFacts, ours: FieldFacts) -> Iterator[str]:
    for fact in (fact.name for fact in fields(FieldFacts) if fact.name != "members"):
        theirs, here = getattr(kafka, fact), getattr(ours, fact)
        if (type(theirs), theirs) != (type(here), here):  # 0 is not False here
            yield f"{path}: {fact} is {theirs!r} in Kafka, {here!r} here"
    yield from _of_the_fields(path, kafka.members, ours.members)


# Kafka's side


def _common_structs(document: Json) -> Mapping[str, Sequence[Json]]:
    return {struct["name"]: struct["fields"] for struct in document.get("commonStructs", ())}


def _from_json(members: Sequence[Json], common: Mapping[str, Sequence[Json]], spoken: Range) -> Iterator[FieldFacts]:
    for field in members:
        given = versions(field["versions"])
        if given is not None and (here := given.within(spoken)):
            yield _field_from_json(field, common, here, spoken)


def _field_from_json(field: Json, common: Mapping[str, Sequence[Json]], here: Range, spoken: Range) -> FieldFacts:
    element = field["type"].removeprefix("[]")
    array = field["type"] != element
    struct = element if element[0].isupper() else None
    nullable = versions(field.get("nullableVersions", "none"))
    name = field["name"].lower()
    return FieldFacts(
        name=name,
        type=("[]" if array else "") + (STRUCT if struct else element),
        struct=struct,
        since=here.first,
        until=FOREVER if here.last == spoken.last else here.last,
        tag=_tag_from_json(field, here),
        nullable_since=nullable.within(here).first if nullable is not None and nullable.within(here) else None,
        default=_default_from_json(field, element, array=array),
        ignorable=bool(field.get("ignorable", False)),
        map_key=bool(field.get("mapKey", False)),
        is_error_code=name == "errorcode" and element == "int16" and not array,
        never_compact=field.get("flexibleVersions") == "none",
        members=tuple(_from_json(_members(field, struct, common), common, here)) if struct else (),
    )


def _members(field: Json, struct: str, common: Mapping[str, Sequence[Json]]) -> Sequence[Json]:
    """The fields of a struct, which stand with the field or, when several share it, with the message."""
    return field["fields"] if "fields" in field else common[struct]


def _tag_from_json(field: Json, here: Range) -> int | None:
    """The tag; a field that is tagged in some of its versions only has no word in our schema."""
    tagged = versions(field.get("taggedVersions", "none"))
    if tagged is None:
        assert "tag" not in field, field
        return None
    assert here == here.within(tagged), f"{field['name']} is tagged only in {tagged} of {here}"
    return int(field["tag"])


_EMPTY: Final = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "float64": 0.0}


def _default_from_json(field: Json, element: str, *, array: bool) -> Any:
    """The default as a value of the field's type; the JSON writes it as text, as a number or not at all."""
    given = field.get("default", "")
    if given == "null":
        return None
    if array:
        return ()
    if element[0].isupper():
        return AT_MEMBERS_DEFAULTS
    if element == "bool":
        return str(given).lower() == "true"
    if element in ("string", "bytes", "records", "uuid"):
        return given or _EMPTY[element]
    if element == "float64":
        return float(given or 0)
    return int(str(given or 0), 0)


# Our side


def _from_layout(layout: Layout, spoken: Range) -> Iterator[FieldFacts]:
    descriptors = layout.protobuf.DESCRIPTOR.fields_by_name
    for field in layout.fields:
        last = FOREVER if field.until is None else field.until
        here = Range(first=field.since, last=last).within(spoken)
        if not here and field.since > spoken.last:
            continue  # newer than the release
        struct = field.struct.name.rpartition(".")[2] if field.struct else None
        null_from = field.nullable_since
        enum = descriptors[field.name].enum_type
        yield FieldFacts(
            name=field.name.replace("_", "").lower(),
            type=("[]" if field.array else "") + (STRUCT if field.kind is FieldType.STRUCT else field.kind.value),
            struct=struct,
            since=here.first,
            until=FOREVER if here.last == spoken.last else here.last,
            tag=field.tag,
            nullable_since=max(null_from, here.first) if null_from is not None and null_from <= here.last else None,
            default=AT_MEMBERS_DEFAULTS if field.default is ... else field.default,
            ignorable=field.ignorable,
            map_key=field.map_key,
            is_error_code=enum is not None and enum.full_name == errors_pb2.ErrorCode.DESCRIPTOR.full_name,
            never_compact=field.never_compact,
            members=tuple(_from_layout(field.struct, here)) if field.struct else (),
        )
