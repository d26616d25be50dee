"""AlterClientQuotas: in which words, and what has to be looked up. The rest: `tables/*_client_quotas.py`."""

from __future__ import annotations

import pytest

from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from quorate.controller.commands.alter_client_quotas import alter_client_quotas, wanted_hosts
from tests.controller.quota_entities import ALICE, ANYWHERE, HOST
from tests.controller.tables.alter_client_quotas import BYTES, CONNECTIONS, REQUESTS, TABLE, Op, alices_quotas, entry
from tests.controller.words import words


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("an entity without parts", "the entity is empty"),
        ("a type that there is not", "there is no entity type 'group'"),
        ("an empty name", "a name must not be empty"),
        ("a type twice", "an entity has each type at most once"),
        ("an address of a user", "ip cannot be combined with user or client-id"),
        ("every address of every client", "ip cannot be combined with user or client-id"),
        ("what looks like an address", "'10.0.0.256' is no address"),
        ("a host that cannot be looked up", "'a.example' is no address"),
        ("a quota of addresses for a user", "user 'alice' has no quota 'connection_creation_rate'"),
        ("a quota of users for an address", "ip '10.0.0.1' has no quota 'producer_byte_rate'"),
        ("a quota that there is not", "has no quota 'speed'"),
        ("nothing", "request_percentage 0 is not a finite number above 0"),
        ("less than nothing", "not a finite number above 0"),
        ("what is no number", "not a finite number above 0"),
        ("an infinite number", "not a finite number above 0"),
        ("a part of a byte", "producer_byte_rate 1.5 is not a whole number"),
        ("a whole number but for a millionth", "not a whole number"),
        ("a part of a connection", "not a whole number"),
        ("more bytes than a long has", "is above 9223372036854775808"),
        ("more connections than an int has", "is above 2147483647"),
    ],
)
def test_says_why(case: str, says: str) -> None:
    assert says in words(TABLE, case)


def test_removes_a_quota_and_with_the_last_one_the_entity() -> None:
    cluster = alices_quotas()
    left = []
    for key in (BYTES, REQUESTS):
        request = AlterClientQuotasRequest((entry(ALICE, Op(key, remove=True)),))
        cluster.write(alter_client_quotas(request))
        left.append({entity: dict(cluster.state.client_quotas.of(entity)) for entity in cluster.state.client_quotas})

    assert [{ALICE: {REQUESTS: 2.0}}, {}] == left


def test_names_of_hosts_have_to_be_looked_up() -> None:
    entities = ((("ip", "a.example"),), (("ip", "b.example"),), HOST, ANYWHERE, ALICE)
    request = AlterClientQuotasRequest(tuple(entry(entity, Op(CONNECTIONS, 1.0)) for entity in entities))

    assert {"a.example", "b.example"} == wanted_hosts(request)
