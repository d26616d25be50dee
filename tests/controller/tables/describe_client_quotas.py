"""DescribeClientQuotas (48)."""

from __future__ import annotations

from typing import Any

from kraft.api.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from quorate.controller.commands.describe_client_quotas import MatchType, describe_client_quotas
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.client_quotas import Entity
from tests.controller.clusters import Cluster
from tests.controller.quota_entities import ALICE, ALICES_APP, ALICES_OTHERS, ANYBODY, ANYWHERE, APP, HOST, quota
from tests.controller.tables.table import Row, Table

Part = DescribeClientQuotasRequest.ComponentData
Entry = DescribeClientQuotasResponse.EntryData
BYTES, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"
QUOTAS = {
    ALICES_OTHERS: {BYTES: 1.0},
    APP: {BYTES: 2.0},
    ALICES_APP: {BYTES: 3.0},
    ANYWHERE: {CONNECTIONS: 4.0},
    HOST: {CONNECTIONS: 5.0},
    ANYBODY: {BYTES: 6.0},
    ALICE: {"consumer_byte_rate": 7.0, BYTES: 8.0},
}
"""In the order of the answer, which is not the one in which they are set."""


def seven_entities() -> Cluster:
    """Quotas 1 to 8 of: alice with other clients, app, alice with app, any address, 10.0.0.1, any user, alice (two)."""
    cluster = Cluster(25)
    cluster.apply(
        quota(entity, key, QUOTAS[entity][key])
        for entity in reversed(QUOTAS)
        for key in sorted(QUOTAS[entity], reverse=True)
    )
    return cluster


def no_quotas() -> Cluster:
    """No quotas."""
    return Cluster(25)


def told(*entities: Entity) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=tuple(
            Entry(
                tuple(Entry.EntityData(*part) for part in entity),
                tuple(Entry.ValueData(*each) for each in QUOTAS[entity].items()),
            )
            for entity in entities
        ),
    )


def means(case: str, rule: str, *parts: Part, of: tuple[Entity, ...] = (), strict: bool = False) -> Row:
    return Row(case=case, rule=rule, request=DescribeClientQuotasRequest(parts, strict), answer=told(*of))


def refused(case: str, rule: str, *parts: Part, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> Row:
    return Row(case=case, rule=rule, request=DescribeClientQuotasRequest(parts), answer=code)


def is_(kind: str, name: str | None) -> Part:
    return Part(kind, MatchType.EXACT, name)


def is_default(kind: str, name: str | None = None) -> Part:
    return Part(kind, MatchType.DEFAULT, name)


def is_there(kind: str, name: str | None = None) -> Part:
    return Part(kind, MatchType.SPECIFIED, name)


def command(_: Cluster, request: DescribeClientQuotasRequest) -> Command[Any]:
    return describe_client_quotas(request)


DESCRIBE, MATCHES = "ClientQuotasImage.describe", "ClientQuotasImage.matches"
OPEN = f"{MATCHES}: an entity may have further parts."
STRICT = f"{MATCHES}: strict, so no further parts (KIP-546)."

TABLE = Table(
    api="DescribeClientQuotas",
    kafka=f"{DESCRIBE} (KIP-546)",
    command=command,
    given=seven_entities,
    rows=(
        means("everything", f"{MATCHES}: without parts everything.", of=tuple(QUOTAS)),
        means("everything, strictly", f"{MATCHES}: no entity is without parts.", strict=True),
        means("a user", OPEN, is_("user", "alice"), of=(ALICES_OTHERS, ALICES_APP, ALICE)),
        means("a user alone", STRICT, is_("user", "alice"), of=(ALICE,), strict=True),
        means("the default user", f"{MATCHES}: no name of its own.", is_default("user"), of=(ANYBODY,)),
        means("any user, or the default", OPEN, is_there("user"), of=(ALICES_OTHERS, ALICES_APP, ANYBODY, ALICE)),
        means("any user alone, or the default", STRICT, is_there("user"), of=(ANYBODY, ALICE), strict=True),
        means("a client", OPEN, is_("client-id", "app"), of=(APP, ALICES_APP)),
        means(
            "a client of a user",
            STRICT,
            is_("client-id", "app"),
            is_("user", "alice"),
            of=(ALICES_APP,),
            strict=True,
        ),
        means(
            "the default client of any user",
            STRICT,
            is_there("user"),
            is_default("client-id"),
            of=(ALICES_OTHERS,),
            strict=True,
        ),
        means("any address, or the default", OPEN, is_there("ip"), of=(ANYWHERE, HOST)),
        means("an address without quotas", f"{MATCHES}: what means nothing is no error.", is_("ip", "10.0.0.2")),
        means("a user of that name alone", f"{MATCHES}: each type has its own names.", is_("user", "app")),
        Row(
            case="nothing is there",
            rule=f"{MATCHES}: what means nothing is no error.",
            given=no_quotas,
            request=DescribeClientQuotasRequest(),
            answer=told(),
        ),
        refused("no type", DESCRIBE, is_("", "a")),
        refused("a type that there is not", DESCRIBE, is_("group", "a"), code=ErrorCode.UNSUPPORTED_VERSION),
        refused("a type twice", DESCRIBE, is_("user", "a"), is_default("user")),
        refused("exactly no name", DESCRIBE, is_("user", None)),
        refused("the default of a name", DESCRIBE, is_default("user", "a")),
        refused("any of a name", DESCRIBE, is_there("user", "a")),
        refused("a match that there is not", DESCRIBE, Part("user", 3, None)),
        refused("an address of a user", f"{DESCRIBE}: addresses alone.", is_("ip", "10.0.0.1"), is_("user", "a")),
        refused("a default address of any client", DESCRIBE, is_there("client-id"), is_default("ip")),
        refused(
            "a type that there is not, with a match that there is not",
            f"{DESCRIBE}: the type before the match.",
            Part("group", 3, "a"),
            code=ErrorCode.UNSUPPORTED_VERSION,
        ),
        refused(
            "a part that is wrong before a type that there is not",
            f"{DESCRIBE}: part by part.",
            is_("user", None),
            is_("group", "a"),
        ),
        refused(
            "a type that there is not, twice",
            f"{DESCRIBE}: it is refused when it first comes.",
            is_("group", "a"),
            is_("group", "a"),
            code=ErrorCode.UNSUPPORTED_VERSION,
        ),
        refused(
            "an address of a user of a type that there is not",
            f"{DESCRIBE}: each part before how they go together.",
            is_("ip", "10.0.0.1"),
            is_("user", "a"),
            is_("group", "a"),
            code=ErrorCode.UNSUPPORTED_VERSION,
        ),
    ),
)
