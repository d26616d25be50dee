"""What of an answer, and of a state, has to be equal: everything but ids, epochs that are offsets, and times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kraft import Message
from kraft.errors import ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.wire.protobuf import json_form
from tests.interop.operations.followed import names_of
from tests.interop.operations.step import View
from tests.interop.operations.targets import Outcome

Json = Any  # Any: JSON values

CODE: Final = "errorCode"
MASKED: Final = "…"
WORDS: Final = "errorMessage"
"""Left out where something is refused: sentences are each one's own. A granted request has null or an empty one."""
TIME: Final = "throttleTimeMs"
"""Left out everywhere: nobody is throttled here."""
CHANCE: Final = frozenset(
    {"brokerEpoch", "tokenId", "hmac", "issueTimestamp", "issueTimestampMs", "expirationTimestamp"}
)


PLACED: Final = "placed"
"""Topics whose names begin so are placed by the controller, with chance: only the numbers of replicas are equal."""
PLACED_BY_CHANCE: Final[Mapping[str, tuple[str, ...]]] = {
    "PartitionRecord": ("replicas", "isr", "directories"),
    "PartitionChangeRecord": ("replicas", "isr", "directories"),
}
"""Lists of brokers in their records, of which the lengths are equal."""


def whole(outcome: Outcome, views: Iterable[View], masks: frozenset[str]) -> Json:
    """An answer without what may differ: topics by their names, lists that Kafka has in a hash table's order sorted.

    `views` are those before and after: a topic may be in one of them only.
    """
    if outcome.response is None:
        return {"refused": (outcome.refusal or ErrorCode.NONE).name}
    names = {topic_id: name for view in views for topic_id, name in view.names.items()}
    return _masked(json_form(outcome.response), names, masks | CHANCE)


def codes(outcome: Outcome) -> frozenset[ErrorCode]:
    """Every error code in an answer, at whatever depth, or that of its refusal."""
    if outcome.response is None:
        assert outcome.refusal is not None
        return frozenset({outcome.refusal})
    found = {ErrorCode(code) for code in _codes(json_form(outcome.response))}
    return frozenset(found - {ErrorCode.NONE})


def is_refusal(outcome: Outcome, refusal: ErrorCode) -> bool:
    """Does an answer say as Kafka's protocol says it that the request as a whole was refused?

    Either its first error code does, or, where it has none, that of every item.
    """
    if outcome.response is None:
        return outcome.refusal is refusal
    answer = json_form(outcome.response)
    if CODE in answer:
        return bool(answer[CODE] == refusal)
    found = list(_codes(answer))
    return bool(found) and all(code == refusal for code in found)


def content(record: Message, names: Mapping[str, str]) -> Json:
    """What has to be equal of a record: topics by their names."""
    kind = type(record).__name__
    row = _masked(json_form(record), names, CHANCE | OF_RECORDS.get(kind, frozenset()))
    if kind in PLACED_BY_CHANCE and row["topicId"].startswith(PLACED):
        counted = {name: row[name] and len(row[name]) for name in PLACED_BY_CHANCE[kind]}
        return {**row, "leader": MASKED, **counted}
    return row


def rows(state: ClusterState) -> dict[str, Json]:
    """A state as the records that rebuild it, by what each is about: topics by name, secrets and all."""
    names = names_of(state)
    found: dict[str, Json] = {}
    for record, _ in state.all_records(LATEST):
        kind = type(record).__name__
        row = content(record, names)
        key = " ".join([kind, *(str(row.get(name)) for name in KEYS.get(kind, ()))])
        if kind in UNNAMED:
            key = f"{kind} {json.dumps(row, sort_keys=True)}"
        assert key not in found, (key, row, found[key])
        found[key] = row
    return found


KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "RegisterBrokerRecord": ("brokerId",),
    "RegisterControllerRecord": ("controllerId",),
    "TopicRecord": ("name",),
    "PartitionRecord": ("topicId", "partitionId"),
    "ConfigRecord": ("resourceType", "resourceName", "name"),
    "FeatureLevelRecord": ("name",),
    "UserScramCredentialRecord": ("name", "mechanism"),
}
"""What tells records of one kind apart."""
UNNAMED: Final = frozenset({"AccessControlEntryRecord", "DelegationTokenRecord", "ClientQuotaRecord"})
"""Whose name is chance, or all of it: their content tells them apart."""
OF_RECORDS: Final[Mapping[str, frozenset[str]]] = {
    "AccessControlEntryRecord": frozenset({"id"}),
    "RemoveAccessControlEntryRecord": frozenset({"id"}),
    "RegisterControllerRecord": frozenset({"incarnationId", "endPoints"}),
}


def differences(theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> dict[str, tuple[Json, Json]]:
    """Rows that are not equal, (Kafka's, ours); None where there is none."""
    return {
        key: (theirs.get(key), ours.get(key))
        for key in sorted(theirs.keys() | ours.keys())
        if theirs.get(key) != ours.get(key)
    }


def _masked(value: Json, names: Mapping[str, str], masks: frozenset[str]) -> Json:
    if isinstance(value, dict):
        left_out = {TIME, WORDS} if value.get(CODE) else {TIME}
        return {
            key: MASKED if key in masks else _masked(each, names, masks)
            for key, each in value.items()
            if key not in left_out
        }
    if isinstance(value, list):
        items = [_masked(each, names, masks) for each in value]
        return sorted(items, key=lambda each: json.dumps(each, sort_keys=True)) if _is_map(items) else items
    return names.get(value, value) if isinstance(value, str) else value


def _is_map(items: list[Json]) -> bool:
    """Lists of objects are maps to Kafka, in no order; the order of numbers and ids says something."""
    return bool(items) and isinstance(items[0], dict)


def _codes(value: Json) -> Iterator[int]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == CODE:
                yield each
            else:
                yield from _codes(each)
    elif isinstance(value, list):
        for each in value:
            yield from _codes(each)


def leaves(theirs: Json, ours: Json, path: str = "") -> dict[str, tuple[Json, Json]]:
    """Where two JSON values part, by path: (Kafka's, ours)."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        pairs = [(f"{path}.{key}", theirs.get(key), ours.get(key)) for key in theirs.keys() | ours.keys()]
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = [(f"{path}[{at}]", *both) for at, both in enumerate(zip(theirs, ours, strict=True))]
    else:
        return {} if theirs == ours else {path: (theirs, ours)}
    return {found: both for where, one, other in pairs for found, both in leaves(one, other, where).items()}
