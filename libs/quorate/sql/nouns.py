"""The tables: each has the fields of one record as its columns, and its rows are what a state has of that record.

A column has the field's name, and its comment. An id is a text in Kafka's base64, a list a JSON array, an enumeration
the word that Kafka's tools print. Fields of bytes are no columns, since all of them in these records are secrets, and
the value of a config that is or may be a password is redacted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import compress
from typing import Any, Final, TypeAlias

import msgspec

from kraft import Message
from quorate.controller.secrets import redacted
from quorate.metadata import acls, scram
from quorate.metadata.configs import RESOURCE_TYPES
from quorate.metadata.partitions import RECOVERED, RECOVERING, as_record
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.nouns import uuid_text
from quorate.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    VotersRecord,
)
from quorate.sql.comments import comment_of
from quorate.wire.json_names import json_name
from quorate.wire.schema import Field, FieldType, Layout, layout_of

__all__ = ["NOUNS", "Image", "Named", "Noun", "Row", "Value", "column_names", "rows", "rows_of"]

Value: TypeAlias = int | float | str | None
"""A value as the database has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A cluster's state, and the voters that the control records of the log say; None if they say none."""

    state: ClusterState
    voters: VotersRecord | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """One column; `kind` is the type of a value, STRUCT for a JSON text."""

    name: str
    kind: FieldType
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """Describes one table: its columns are fields of the metadata record `record`, its rows the records of `of`.

    `first` are columns before those of the record; `of` yields their values before each record.
    """

    name: str
    about: str
    record: type[Message]
    key: tuple[str, ...]
    """The columns by which a row is looked up; () for a table of millions of which a question walks the whole."""
    of: Callable[[Image], Iterable[tuple[Sequence[Value], Message]]]
    row_key: tuple[str, ...] | None = None
    """The columns that identify a row, if that is not `key`."""
    within: type[Message] | None = None
    """The record that has a list of them, if they are no records of their own."""
    first: tuple[Named, ...] = ()
    without: frozenset[str] = frozenset()
    """Fields that are of a change, and that no state keeps."""
    words: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By field: what its numbers are called."""

    @property
    def layout(self) -> Layout:
        """The layout (fields and types) of the record, or of an item of the list that the record `within` has."""
        if self.within is None:
            return layout_of(self.record)
        structs = (each.struct for each in layout_of(self.within).fields)
        return next(
            each for each in structs if each is not None and each.protobuf.DESCRIPTOR.name == self.record.__name__
        )

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that tell a row from all others."""
        return self.key if self.row_key is None else self.row_key

    @property
    def fields(self) -> tuple[Field, ...]:
        """The record's fields that are columns: all but those of bytes and those of `without`."""
        fields = self.layout.fields
        return tuple(each for each in fields if each.kind is not FieldType.BYTES and each.name not in self.without)

    @property
    def columns(self) -> tuple[Named, ...]:
        """All columns, in order."""
        record = self.layout.protobuf.DESCRIPTOR.full_name
        of_record = (Named(each.name, self._kind(each), comment_of(f"{record}.{each.name}")) for each in self.fields)
        return (*self.first, *of_record)

    def _kind(self, each: Field) -> FieldType:
        if each.array:
            return FieldType.STRUCT
        return FieldType.STRING if each.name in self.words else each.kind


Row: TypeAlias = tuple[Value, ...]
"""The values of a row, in the order of its table's columns."""


def rows(noun: Noun, image: Image, only: frozenset[str] | None = None) -> Iterator[Row]:
    """Yields the rows of a table of the image, in the order in which a checkpoint has them.

    With `only`, a row has the values of those columns alone.
    """
    return rows_of(noun, noun.of(image), only)


def rows_of(
    noun: Noun, found: Iterable[tuple[Sequence[Value], Message]], only: frozenset[str] | None = None
) -> Iterator[Row]:
    """Yields the row of each record of `found`, where it comes after the values of the columns `first` of the table.

    With `only`, a row has the values of those columns alone.
    """
    names, converters = _reading(noun.name)
    before = [only is None or each.name in only for each in noun.first]
    if only is not None:
        chosen = [(name, convert) for name, convert in zip(names, converters, strict=True) if name in only]
        names, converters = [name for name, _ in chosen], [convert for _, convert in chosen]
    for first, record in found:
        values = [getattr(record, name) for name in names]
        yield (
            *compress(first, before),
            *[value if convert is None else convert(value) for value, convert in zip(values, converters, strict=True)],
        )


@cache
def column_names(table: str) -> tuple[str, ...]:
    """Returns the names of a table's columns, in order."""
    return tuple(each.name for each in NOUNS[table].columns)


@cache
def _reading(table: str) -> tuple[list[str], list[Callable[[Any], Value] | None]]:
    """Returns a record's fields that are columns, and what makes the value of each."""
    noun = NOUNS[table]
    fields = noun.fields
    return [each.name for each in fields], [_converter(each, noun.words.get(each.name)) for each in fields]


TEXTS_CACHED: Final = 65_536
"""Texts of lists and ids that are cached for each column, as they repeat from row to row."""


def _converter(of: Field, words: Mapping[int, str] | None) -> Callable[[Any], Value] | None:
    """Returns what makes a field's values those of the database; None if they are."""
    # Any: a value of the field's own type.
    if words is not None:
        return lambda number: words.get(number, str(number))
    if of.array or of.kind is FieldType.STRUCT:
        return lru_cache(TEXTS_CACHED)(_as_json)
    return lru_cache(TEXTS_CACHED)(uuid_text) if of.kind is FieldType.UUID else None


def _as_json(value: Any) -> Value:
    """Returns a list as JSON; null for none, as the record has it."""
    if type(value) is tuple and all(type(each) is int for each in value):
        return f"[{','.join(map(str, value))}]"  # broker ids, of which a state has millions
    return None if value is None else json.dumps(_in_json(value), ensure_ascii=False, separators=(",", ":"))


def _in_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_in_json(each) for each in value]
    if isinstance(value, msgspec.Struct):
        names = (name for name in value.__struct_fields__ if name != "unknown_tags")
        return {name: _in_json(getattr(value, name)) for name in names}
    return uuid_text(value) if isinstance(value, bytes) else value


NONE: Final[Sequence[Value]] = ()


def _alone(records: Iterable[Message]) -> Iterator[tuple[Sequence[Value], Message]]:
    return ((NONE, record) for record in records)


def _partitions(image: Image) -> Iterator[tuple[Sequence[Value], Message]]:
    for topic in image.state.topics:
        for partition_id, partition in topic.pairs():
            yield (topic.name,), as_record(partition, topic.id, partition_id)[0]


def _configs(image: Image) -> Iterator[tuple[Sequence[Value], Message]]:
    return _alone(redacted(record) for record, _ in image.state.configs.records())


def _features(image: Image) -> Iterator[tuple[Sequence[Value], Message]]:
    return _alone(FeatureLevelRecord(*each) for each in image.state.features.finalized().items())


_OF_ACLS: Final = ("resource_type", "pattern_type", "operation", "permission_type")

NOUNS: Final[Mapping[str, Noun]] = {
    noun.name: noun
    for noun in (
        Noun(
            name="topics",
            about="the topics",
            record=TopicRecord,
            key=("topic_id",),
            row_key=("name", "topic_id"),
            of=lambda image: _alone(TopicRecord(topic.name, topic.id) for topic in image.state.topics),
        ),
        Noun(
            name="partitions",
            about="each partition, with its replicas, its leader and its in-sync replicas",
            record=PartitionRecord,
            key=(),
            row_key=("topic", "topic_id", "partition_id"),
            of=_partitions,
            first=(Named("topic", FieldType.STRING, "The topic's name."),),
            words={"leader_recovery_state": {RECOVERED: "RECOVERED", RECOVERING: "RECOVERING"}},
        ),
        Noun(
            name="brokers",
            about="the registered brokers",
            record=RegisterBrokerRecord,
            key=("broker_id",),
            of=lambda image: _alone(record for record, _ in image.state.brokers.records(LATEST)),
        ),
        Noun(
            name="controllers",
            about="the registered controllers",
            record=RegisterControllerRecord,
            key=("controller_id",),
            of=lambda image: _alone(image.state.controllers),
        ),
        Noun(
            name="voters",
            about="the voters, if the log has them (KIP-853)",
            record=VotersRecord.Voter,
            within=VotersRecord,
            key=("voter_id", "voter_directory_id"),
            of=lambda image: _alone(() if image.voters is None else image.voters.voters),
        ),
        Noun(
            name="features",
            about="the finalized features, metadata.version among them",
            record=FeatureLevelRecord,
            key=("name",),
            of=_features,
        ),
        Noun(
            name="configs",
            about="the configs that are set, passwords redacted; defaults and files are not here",
            record=ConfigRecord,
            key=("resource_type", "resource_name", "name"),
            of=_configs,
            words={"resource_type": RESOURCE_TYPES},
        ),
        Noun(
            name="client_quotas",
            about="the client quotas",
            record=ClientQuotaRecord,
            key=("entity", "key"),
            without=frozenset({"remove"}),
            of=lambda image: _alone(record for record, _ in image.state.client_quotas.records()),
        ),
        Noun(
            name="acls",
            about="the ACL entries",
            record=AccessControlEntryRecord,
            key=("id",),
            of=lambda image: _alone(image.state.acls),
            words={name: acls.NAMES[json_name(name)] for name in _OF_ACLS},
        ),
        Noun(
            name="scram_users",
            about="the SCRAM credentials, without salt and keys",
            record=UserScramCredentialRecord,
            key=("name", "mechanism"),
            of=lambda image: _alone(image.state.scram),
            words={"mechanism": scram.MECHANISMS},
        ),
        Noun(
            name="delegation_tokens",
            about="the delegation tokens, without their HMAC",
            record=DelegationTokenRecord,
            key=("token_id",),
            of=lambda image: _alone(image.state.delegation_tokens),
        ),
        Noun(
            name="producer_ids",
            about="the next producer id that a broker is given",
            record=ProducerIdsRecord,
            key=("next_producer_id",),
            row_key=(),
            without=frozenset({"broker_id", "broker_epoch"}),
            of=lambda image: _alone(record for record, _ in image.state.producer_ids.records()),
        ),
    )
}
"""All tables by name."""
