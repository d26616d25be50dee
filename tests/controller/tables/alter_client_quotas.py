"""AlterClientQuotas (49)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from kraft.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from quorate.controller.commands.alter_client_quotas import alter_client_quotas
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.metadata.client_quotas import Entity
from tests.controller.clusters import Cluster
from tests.controller.quota_entities import ALICE, ALICES_APP, ALICES_OTHERS, ANYBODY, ANYWHERE, APP, HOST, quota
from tests.controller.tables.table import Row, Table

Asked = AlterClientQuotasRequest.EntryData
Op = Asked.OpData
Result = AlterClientQuotasResponse.EntryData
BYTES, REQUESTS, CONNECTIONS = "producer_byte_rate", "request_percentage", "connection_creation_rate"


def no_quotas() -> Cluster:
    """No quotas."""
    return Cluster(25)


def alices_quotas() -> Cluster:
    """User alice: producer_byte_rate 1, request_percentage 2."""
    cluster = no_quotas()
    cluster.apply([quota(ALICE, BYTES, 1.0), quota(ALICE, REQUESTS, 2.0)])
    return cluster


def entry(entity: Entity, *ops: Op) -> Asked:
    return Asked(tuple(Asked.EntityData(*part) for part in entity), ops)


def asked(*entries: Asked, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries, validate_only)


def told(*results: tuple[ErrorCode, Entity]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(
            Result(code, error_message=None, entity=tuple(Result.EntityData(*part) for part in entity))
            for code, entity in results
        )
    )


def sets(case: str, rule: str, entity: Entity, key: str, value: float) -> Row:
    """One quota of one entity is one record."""
    return Row(
        case=case,
        rule=rule,
        request=asked(entry(entity, Op(key, value))),
        records=(quota(entity, key, value),),
        answer=told((OK, entity)),
    )


def refused(
    case: str, rule: str, entity: Entity, key: str, value: float = 1.0, *, told_of: Entity | None = None
) -> Row:
    """One entity that is refused, and after it one that is not. `told_of`: how the response names the first."""
    return Row(
        case=case,
        rule=rule,
        request=asked(entry(entity, Op(key, value)), entry(APP, Op(BYTES, 1.0))),
        records=(quota(APP, BYTES, 1.0),),
        answer=told((INVALID, entity if told_of is None else told_of), (OK, APP)),
    )


def command(_: Cluster, request: AlterClientQuotasRequest, known_hosts: Collection[str] = ()) -> Command[Any]:
    return alter_client_quotas(request, known_hosts=known_hosts)


OK, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
MANAGER = "ClientQuotaControlManager"
ENTITY = f"{MANAGER}.validateEntity"
KEYS = f"{MANAGER}.configKeysForEntityType"
VALUE = f"{MANAGER}.validateQuotaKeyValue"
WHOLE = f"{MANAGER}.getErrorForIntegralQuotaValue"
CHANGED = f"{MANAGER}.alterClientQuotaEntity: only what changes is written."
A_HOST: Entity = (("ip", "a.example"),)

TABLE = Table(
    api="AlterClientQuotas",
    kafka=f"{MANAGER}.alterClientQuotas (KIP-546)",
    command=command,
    given=no_quotas,
    rows=(
        sets("a user", "A quota of an entity is one record (KIP-546).", ALICE, BYTES, 1024.0),
        sets("every user", "A name that is null is the default of its type (KIP-546).", ANYBODY, BYTES, 1.0),
        sets("a client of a user", "A user and a client id go together (KIP-546).", ALICES_APP, BYTES, 1.0),
        sets("every other client of a user", "Defaults go together with names (KIP-546).", ALICES_OTHERS, BYTES, 1.0),
        sets("an address", "New connections a second are an address's (KIP-612).", HOST, CONNECTIONS, 1.0),
        sets("every address", "They have a default, too (KIP-612).", ANYWHERE, CONNECTIONS, 1.0),
        sets("an IPv6 address", f"{MANAGER}.isValidIpEntity", (("ip", "2001:db8::1"),), CONNECTIONS, 1.0),
        sets("a part of a percent", f"{VALUE}: of a double any that is above 0.", APP, REQUESTS, 0.5),
        sets("mutations", "They are users' and clients' (KIP-599).", ALICES_APP, "controller_mutation_rate", 1e-9),
        sets("nearly a whole number", f"{WHOLE}: up to a millionth above; kept as it is.", APP, BYTES, 5.0000001),
        sets("the most bytes", f"{VALUE}: Long.MAX_VALUE as a double.", ANYBODY, "consumer_byte_rate", 2.0**63),
        sets("the most connections", f"{VALUE}: Integer.MAX_VALUE.", HOST, CONNECTIONS, 2.0**31 - 1),
        Row(
            case="two quotas, parts in the other order",
            rule=f"{MANAGER}.alterClientQuotaEntity: a record for each; the entity is the same in any order.",
            request=asked(entry((("user", "alice"), ("client-id", None)), Op(REQUESTS, 7.0), Op(BYTES, 8.0))),
            records=(quota(ALICES_OTHERS, REQUESTS, 7.0), quota(ALICES_OTHERS, BYTES, 8.0)),
            answer=told((OK, ALICES_OTHERS)),
        ),
        Row(
            case="one set anew, one removed",
            rule=f"{MANAGER}.alterClientQuotaEntity: an op without a value removes (KIP-546).",
            given=alices_quotas,
            request=asked(entry(ALICE, Op(BYTES, 5.0), Op(REQUESTS, remove=True))),
            records=(quota(ALICE, BYTES, 5.0), quota(ALICE, REQUESTS, remove=True)),
            answer=told((OK, ALICE)),
        ),
        Row(
            case="set as it is",
            rule=CHANGED,
            given=alices_quotas,
            request=asked(entry(ALICE, Op(BYTES, 1.0))),
            answer=told((OK, ALICE)),
        ),
        Row(
            case="what is not set removed",
            rule=CHANGED,
            given=alices_quotas,
            request=asked(entry(ALICE, Op("consumer_byte_rate", remove=True))),
            answer=told((OK, ALICE)),
        ),
        Row(
            case="what there never is removed",
            rule=f"{CHANGED[:-1]}; of what goes the key is not looked at.",
            request=asked(entry(ALICE, Op("speed", remove=True))),
            answer=told((OK, ALICE)),
        ),
        Row(
            case="an entity without changes",
            rule=f"{MANAGER}.alterClientQuotas: a result for each entity.",
            request=asked(entry(ALICE)),
            answer=told((OK, ALICE)),
        ),
        Row(
            case="no entity",
            rule=f"{MANAGER}.alterClientQuotas: a result for each entity.",
            request=asked(),
            answer=told(),
        ),
        refused("an entity without parts", ENTITY, (), BYTES),
        refused("a type that there is not", ENTITY, (("group", "g"),), BYTES),
        refused("an empty name", f"{ENTITY}: the default has none at all.", (("user", ""),), BYTES),
        refused(
            "a type twice",
            "An entity has a type once (KIP-546); of two AlterClientQuotasRequest.entries would take the last.",
            (("user", "alice"), ("user", "bob")),
            BYTES,
            told_of=(("user", "bob"),),
        ),
        refused("an address of a user", KEYS, (("ip", "10.0.0.1"), ("user", "alice")), CONNECTIONS),
        refused("every address of every client", KEYS, (("client-id", None), ("ip", None)), CONNECTIONS),
        refused("what looks like an address", f"{MANAGER}.isValidIpEntity", (("ip", "10.0.0.256"),), CONNECTIONS),
        refused("a host that cannot be looked up", f"{MANAGER}.isValidIpEntity", A_HOST, CONNECTIONS),
        Row(
            case="a host that can be looked up",
            rule=f"{MANAGER}.isValidIpEntity: what can be looked up; written by its name.",
            request=asked(entry(A_HOST, Op(CONNECTIONS, 1.0))),
            beside={"known_hosts": ("a.example",)},
            records=(quota(A_HOST, CONNECTIONS, 1.0),),
            answer=told((OK, A_HOST)),
        ),
        refused("a quota that there is not", VALUE, ALICE, "speed"),
        refused("a quota of addresses for a user", KEYS, ALICE, CONNECTIONS),
        refused("a quota of users for an address", KEYS, HOST, BYTES),
        refused("nothing", f"{VALUE}: above 0.", ALICE, REQUESTS, 0.0),
        refused("less than nothing", f"{VALUE}: above 0.", ALICE, REQUESTS, -1.0),
        refused("what is no number", f"{VALUE}: a finite number.", ALICE, REQUESTS, math.nan),
        refused("an infinite number", f"{VALUE}: a finite number.", ALICE, REQUESTS, math.inf),
        refused("a part of a byte", f"{WHOLE}: of a long a whole number.", ALICE, BYTES, 1.5),
        refused("a whole number but for a millionth", f"{WHOLE}: from below nothing is near.", ALICE, BYTES, 0.9999999),
        refused("a part of a connection", f"{WHOLE}: of an int a whole number.", HOST, CONNECTIONS, 1.5),
        refused("more bytes than a long has", f"{VALUE}: up to Long.MAX_VALUE.", ALICE, BYTES, 1e19),
        refused("more connections than an int has", f"{VALUE}: up to Integer.MAX_VALUE.", HOST, CONNECTIONS, 2.0**31),
        Row(
            case="one good and one bad quota of one entity",
            rule=f"{MANAGER}.alterClientQuotaEntity: all of an entity or nothing.",
            request=asked(entry(ALICE, Op(BYTES, 1.0), Op("consumer_byte_rate", -1.0))),
            answer=told((INVALID, ALICE)),
        ),
        Row(
            case="a quota twice",
            rule=f"{MANAGER}.alterClientQuotas: a key twice is an error of the entity.",
            request=asked(entry(ALICE, Op(BYTES, 1.0), Op(BYTES, remove=True)), entry(APP, Op(BYTES, 1.0))),
            records=(quota(APP, BYTES, 1.0),),
            answer=told((INVALID, ALICE), (OK, APP)),
        ),
        Row(
            case="an entity twice",
            rule=f"{MANAGER}.alterClientQuotas: an error; the first is written there, and here none (README).",
            request=asked(entry(ALICE, Op(BYTES, 1.0)), entry(ALICE, Op("consumer_byte_rate", 1.0))),
            answer=told((INVALID, ALICE)),
        ),
        Row(
            case="only to be validated",
            rule="Decided alike; validateOnly drops the records (KIP-546).",
            request=asked(entry(ALICE, Op(BYTES, 1.0)), entry(APP, Op("speed", 1.0)), validate_only=True),
            answer=told((OK, ALICE), (INVALID, APP)),
        ),
    ),
)
