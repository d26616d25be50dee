"""Audit sentences about ACLs, quotas, SCRAM credentials, delegation tokens, producer ids and controllers.

A sentence never contains a credential's salt or keys, nor anything of a token that would let somebody use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kraft import Message
from quorate.metadata.acls import NAMES, WILDCARD, AclPermission, PatternType
from quorate.metadata.scram import MECHANISMS
from quorate.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    UserScramCredentialRecord,
)
from services.pipeline.frames import instant, struct_type
from services.pipeline.gold.audit_rows import began, ended, not_followed, with_before

__all__ = ["QUIET", "WORDINGS", "kept_sentences"]

QUIET: Final = ("feature", "zk_migration_state")
"""Kinds that this module makes no sentences for."""
_KEY: Final = ("kind", "key")
_WHOLE_MAX: Final = 1e15
"""A double that is a whole number below this is printed as an integer."""


class _Wording(NamedTuple):
    """The texts of one kind: functions of the parsed record, or of the state's text before and after."""

    record: type[Message]
    subject: Callable[[Column], Column]
    state: Callable[[Column], Column]
    first: Callable[[Column], Column]
    changed: Callable[[Column, Column], Column]
    removed: Callable[[Column], Column]


def kept_sentences(kept: DataFrame) -> DataFrame:
    """Returns audit timeline rows for every ACL, quota, credential and the like that was set, changed or removed."""
    rows = kept.where(fn.col("kind").isin(*WORDINGS)).withColumns(
        {
            "subject": _by_kind(lambda kind: kind.subject(_record(kind))),
            "state": _by_kind(lambda kind: kind.state(_record(kind))),
        }
    )
    changes = with_before(rows, _KEY, ("state",))
    now, was = fn.col("state"), fn.col("was_state")
    first, changed = _by_kind(lambda kind: kind.first(now)), _by_kind(lambda kind: kind.changed(was, now))
    gone = not_followed(rows, _KEY).where("valid_to_offset is not null")
    removed = ended(gone, fn.col("subject"), _by_kind(lambda kind: kind.removed(now)))
    return began(changes, fn.col("subject"), fn.when(fn.col("is_first"), first).otherwise(changed)).unionByName(removed)


def _by_kind(of: Callable[[_Wording], Column]) -> Column:
    return fn.coalesce(*(fn.when(fn.col("kind") == name, of(kind)) for name, kind in WORDINGS.items()))


def _record(kind: _Wording) -> Column:
    return fn.from_json("payload", struct_type(kind.record))


def _words(*parts: Column | str) -> Column:
    return fn.concat(*(fn.lit(part) if isinstance(part, str) else part for part in parts))


def _named(number: Column, names: Mapping[int, str], otherwise: str) -> Column:
    """Returns the name of a number; for an unknown one `otherwise` and the number."""
    known = fn.create_map(*(fn.lit(part) for pair in names.items() for part in pair))
    return fn.coalesce(fn.element_at(known, number), _words(otherwise, " ", number.cast("string")))


def _resource(record: Column) -> Column:
    """Names the resource of an ACL: literal, `*` for all, or a prefix. KIP-290."""
    kind = fn.lower(
        fn.replace(_named(record["resourceType"], NAMES["resourceType"], "resource type"), fn.lit("_"), fn.lit(" "))
    )
    name = record["resourceName"]
    is_prefix = record["patternType"] == int(PatternType.PREFIXED)
    is_all = (record["patternType"] == int(PatternType.LITERAL)) & (name == WILDCARD)
    literal = _words("ACL of ", kind, " ", name)
    return (
        fn.when(is_prefix, _words("ACL of ", kind, " prefix ", name))
        .when(is_all, _words("ACL of every ", kind))
        .otherwise(literal)
    )


def _rule(record: Column) -> Column:
    operation = _named(record["operation"], NAMES["operation"], "operation")
    may = fn.when(record["permissionType"] == int(AclPermission.ALLOW), " may ").otherwise(" may not ")
    host = fn.when(record["host"] == WILDCARD, "any host").otherwise(record["host"])
    return _words(record["principal"], may, operation, " from ", host)


def _entity(record: Column) -> Column:
    """Names the entity and the key of a quota; an entity part without a name is its type's default. KIP-546."""
    parts = fn.transform(
        record["entity"],
        lambda part: fn.concat(part["entityType"], fn.lit(" "), fn.coalesce(part["entityName"], fn.lit("(default)"))),
    )
    return _words("quota of ", fn.array_join(parts, ", "), ": ", record["key"])


def _number(value: Column) -> Column:
    whole = value.try_cast(
        "bigint"
    )  # null for NaN, the infinities and what no bigint holds, where `floor` fails (ANSI)
    is_whole = (value == whole) & (fn.abs(value) < _WHOLE_MAX)
    return fn.when(is_whole, whole.cast("string")).otherwise(value.cast("string"))


def _credential(record: Column) -> Column:
    return _words(_named(record["mechanism"], MECHANISMS, "mechanism"), " credential of user ", record["name"])


def _iterations(record: Column) -> Column:
    return _words(record["iterations"].cast("string"), " iterations")


def _token(record: Column) -> Column:
    return _words("delegation token ", record["tokenId"], " of ", record["owner"])


def _expires(record: Column) -> Column:
    at_ms = record["expirationTimestamp"]
    shown = fn.date_format(instant(at_ms), "yyyy-MM-dd HH:mm:ss")
    return fn.coalesce(shown, _words(at_ms.cast("string"), " ms since 1970"))


def _controller(record: Column) -> Column:
    return _words("controller ", record["controllerId"].cast("string"))


def _arrow(was: Column, now: Column) -> Column:
    return fn.when(was == now, _words("is written again: ", now)).otherwise(_words(was, " → ", now))


WORDINGS: Final[Mapping[str, _Wording]] = {
    "acl": _Wording(
        AccessControlEntryRecord,
        subject=_resource,
        state=_rule,
        first=lambda now: _words("is added: ", now),
        changed=_arrow,
        removed=lambda was: _words("is removed: ", was),
    ),
    "client_quota": _Wording(
        ClientQuotaRecord,
        subject=_entity,
        state=lambda record: _number(record["value"]),
        first=lambda now: _words("not set → ", now),
        changed=_arrow,
        removed=lambda was: _words(was, " → not set"),
    ),
    "scram": _Wording(
        UserScramCredentialRecord,
        subject=_credential,
        state=_iterations,
        first=lambda now: _words("is set, with ", now),
        changed=lambda was, now: fn.when(was == now, _words("is replaced, with ", now)).otherwise(
            _words("is replaced: ", was, " → ", now)
        ),
        removed=lambda _: fn.lit("is removed"),
    ),
    "delegation_token": _Wording(
        DelegationTokenRecord,
        subject=_token,
        state=_expires,
        first=lambda now: _words("is issued, until ", now),
        changed=lambda was, now: fn.when(was == now, _words("is written again, until ", now)).otherwise(
            _words("is renewed: until ", was, " → ", now)
        ),
        removed=lambda was: _words("is removed; it was good until ", was),
    ),
    "producer_ids": _Wording(
        ProducerIdsRecord,
        subject=lambda _: fn.lit("producer ids"),
        state=lambda record: record["nextProducerId"].cast("string"),
        first=lambda now: _words("the next block begins at ", now),
        changed=lambda was, now: _words("the next block begins at ", was, " → ", now),
        removed=lambda was: _words("are no longer kept; the next block began at ", was),
    ),
    "controller": _Wording(
        RegisterControllerRecord,
        subject=_controller,
        state=lambda record: record["incarnationId"],
        first=lambda now: _words("registers as incarnation ", now),
        changed=lambda was, now: fn.when(was == now, _words("registers again as incarnation ", now)).otherwise(
            _words("registers anew: incarnation ", was, " → ", now)
        ),
        removed=lambda _: fn.lit("is unregistered"),
    ),
}
