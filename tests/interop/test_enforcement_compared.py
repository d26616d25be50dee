"""What brokers of two releases enforce of our log and of a Kafka controller's: one script, the same answers.

Kafka's own Java clients ask; each test runs on either side.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.kafka.node import tool
from deploy.local.ports import HOST
from kraft.api.api_versions import ApiVersionsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.errors import ErrorCode
from quorate.protocol import all_apis
from quorate.protocol.messages import encode_request
from services.gateway.apis import FORWARDABLE
from tests.e2e.calls import eventually
from tests.interop.forwarded import OWNER, RIGHTS, ROWS, STRANGER, answered, forwardable, listed
from tests.interop.kafka.fleet import TOOLS
from tests.interop.kafka.guarded import AT, SIDES, Side, login, password_of
from tests.interop.kafka.release import absent
from tests.interop.kafka.rights import (
    ALL,
    BY_NEW_PROTOCOL,
    GROUP,
    NO_GROUP,
    PAID,
    READERS,
    RECORDS,
    TOPICS,
    WRITERS,
    Entry,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

WITHIN_MS: Final = 60_000
"""Against hanging alone: a caller that may not read gets that answer."""
PROTOCOLS: Final = ("classic", "consumer")
"""The two ways to be in a group: the newer one is KIP-848's."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[*SIDES])
async def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Side]:
    async with SIDES[request.param](tmp_path_factory.mktemp(request.param)) as brokers:
        yield brokers


async def unrestricted(side: Side, name: str) -> Mapping[str, str]:
    """A new user who may do all with topics and groups."""
    client = await side.add_user(name)
    for kind in ("TOPIC", "GROUP"):
        await side.change("createAcl", **Entry("ALL", kind, "*").of(f"User:{name}"))
    await side.settled()
    return client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def written(side: Side) -> Mapping[str, str]:
    """A user who may do all with topics and groups, and has written to each topic."""
    client = await unrestricted(side, "writer")
    for topic in AT:
        answer = await side.clients.answer("produce", client, topic=topic, count=RECORDS, size=100)
        assert RECORDS == answer["records"], answer
    return client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def users(side: Side, written: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """The users of both tables, with their ACLs, by name."""
    made = {}
    for name, (entries, _) in {**READERS, **WRITERS}.items():
        made[name] = await side.add_user(name)
        for entry in entries:
            await side.change("createAcl", **entry.of(f"User:{name}"))
    await side.settled()
    return made


async def consumed(side: Side, client: Mapping[str, str], protocol: str, group: str = "readers") -> int | str:
    """How much a client reads from the beginning on in a group, or how it is refused."""
    settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    of_client = {**client, **settings, "enable.auto.commit": "false"}
    answer = await side.clients.answer("consume", of_client, topics=[*AT], count=ALL, withinMs=WITHIN_MS)
    return answer.get("error") or answer["records"]


@pytest.mark.parametrize(("protocol", "names"), [*zip(PROTOCOLS, (READERS, BY_NEW_PROTOCOL), strict=True)])
async def test_who_may_read_is_who_has_the_rights_on_topics_and_group(
    side: Side, users: Mapping[str, Mapping[str, str]], protocol: str, names: Sequence[str]
) -> None:
    seen = {name: await consumed(side, users[name], protocol) for name in names}

    assert {name: READERS[name][1] for name in names} == seen


async def test_who_may_write_in_transactions_is_who_has_the_rights_on_topic_and_id(
    side: Side, users: Mapping[str, Mapping[str, str]]
) -> None:
    await side.change("createTopic", name=PAID, partitions=1, replicas=2)
    seen = {}
    for name in WRITERS:
        client = {**users[name], "transactional.id": f"payer-{name}"}
        answer = await side.clients.answer("transact", client, topic=PAID, count=RECORDS, size=100)
        seen[name] = answer.get("error") or answer["records"]

    assert {name: outcome for name, (_, outcome) in WRITERS.items()} == seen


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_right_that_is_taken_back_ends_the_reading(
    side: Side, written: Mapping[str, str], protocol: str
) -> None:
    user = f"reader-for-a-while-{protocol}"
    client = await side.add_user(user)
    for entry in (TOPICS, GROUP):
        await side.change("createAcl", **entry.of(f"User:{user}"))
    await side.settled()
    before = await consumed(side, client, protocol)
    await side.change("deleteAcl", **GROUP.of(f"User:{user}"))
    await side.settled()

    assert (ALL, NO_GROUP) == (before, await consumed(side, client, protocol))


async def test_a_scram_user_logs_in_at_each_broker_until_it_is_deleted(side: Side) -> None:
    await side.add_user("bob")
    await side.gets_in("bob", password_of("bob"))
    await side.gets_in("bob", "guess", wanted=False)
    await side.change("deleteScram", user="bob", mechanism="SCRAM_SHA_256")
    await side.gets_in("bob", password_of("bob"), wanted=False)


async def test_a_delegation_token_made_through_a_broker_logs_in_with_its_owners_rights(
    side: Side, tmp_path: Path
) -> None:
    dave, config = await side.add_user("dave"), tmp_path / "dave.properties"
    await side.change("createAcl", **TOPICS._replace(operation="WRITE").of("User:dave"))
    await side.settled()
    await side.gets_in("dave", password_of("dave"))
    config.write_text("".join(f"{name}={value}\n" for name, value in dave.items()))

    async def says(*arguments: object) -> str:
        where = ("--bootstrap-server", side.servers, "--command-config", config)
        return await asyncio.to_thread(tool, TOOLS + "DelegationTokenCommand", *where, *arguments)

    made = await says("--create", "--max-life-time-period", -1, "--renewer-principal", "User:eve")
    token_id, hmac = re.findall(r"^(\S+)\s+(\S+)\s+User:dave\s", made, re.M)[0]
    by_token = login(token_id, hmac, ' tokenauth="true"')
    not_idempotent = {"bootstrap.servers": side.servers, "enable.idempotence": "false", **by_token}
    await side.gets_in(token_id, hmac, is_token=True)
    for topic in AT:
        answer = await side.clients.answer("produce", not_idempotent, topic=topic, count=RECORDS, size=100)
        assert RECORDS == answer.get("records"), answer
    async with await side.logged_in(min(side.login_ports), token_id, hmac, is_token=True) as client:
        another = await client.ask_for(CreateDelegationTokenResponse, CreateDelegationTokenRequest(max_lifetime_ms=-1))

    assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED == another.error_code
    assert token_id in await says("--describe", "--owner-principal", "User:dave")
    await says("--expire", "--hmac", hmac, "--expiry-time-period", -1)
    await side.gets_in(token_id, hmac, wanted=False, is_token=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owned(side: Side) -> Side:
    """One user has all rights, and another has none."""
    for user in (OWNER, STRANGER):
        await side.add_user(user)
    for kind, name in RIGHTS.items():
        await side.change("createAcl", **Entry("ALL", kind, name).of(f"User:{OWNER}"))
    await side.settled()
    return side


async def test_what_an_envelope_may_have_in_it_is_what_kafka_lets_be_in_one() -> None:
    assert FORWARDABLE == forwardable()


async def test_every_api_that_a_broker_passes_on_has_a_row(owned: Side) -> None:
    assert set(ROWS) == await listed(owned)


async def test_the_controller_answers_the_client_of_each_request_that_a_broker_passes_on(owned: Side) -> None:
    """The controller judges the client, not the broker."""
    assert ROWS == await answered(owned)


LOW: Final = 20_000.0
"""Bytes a second; over two windows of a second (`quota.window.num`) a broker allows twice as many."""
HIGH: Final = 1e9
KILO: Final = 1000
MORE_THAN_LOW: Final = 60
"""Records of `KILO` bytes."""
FEW: Final = 5
"""Requests: a client that is throttled for their number waits a second after each."""
USER, CLIENT_ID, ANY = "limited", "slow", None
BY_PRECEDENCE: Final[tuple[Mapping[str, str | None], ...]] = (
    {"client-id": ANY},
    {"client-id": CLIENT_ID},
    {"user": ANY},
    {"user": ANY, "client-id": ANY},
    {"user": ANY, "client-id": CLIENT_ID},
    {"user": USER},
    {"user": USER, "client-id": ANY},
    {"user": USER, "client-id": CLIENT_ID},
)
"""Entities of quotas: each counts instead of those before it. KIP-55, KIP-546."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(side: Side, written: Mapping[str, str]) -> Mapping[str, str]:
    """A user whom nothing limits yet, and who may do all."""
    return {**await unrestricted(side, USER), "client.id": CLIENT_ID}


async def limit(side: Side, entity: Mapping[str, str | None], **quotas: float | None) -> None:
    """Sets quotas of an entity, or deletes those that are None; every broker knows at the end."""
    await side.change("alterQuotas", entity=entity, values=quotas)
    await side.settled()


async def slowed(side: Side, client: Mapping[str, str], count: int = MORE_THAN_LOW) -> set[bool]:
    """Whether each broker throttles a producer of so many requests with one record; one value if all agree."""
    of_client = {**client, "batch.size": "1000", "enable.idempotence": "false"}
    answers = [await side.clients.answer("produce", of_client, topic=at, count=count, size=KILO) for at in AT]
    return {each["throttledMs"] > 0 for each in answers}


async def test_the_quota_of_the_most_specific_entity_counts(side: Side, limited: Mapping[str, str]) -> None:
    seen = [await slowed(side, limited)]
    for entity, rate in zip(BY_PRECEDENCE, (LOW, HIGH) * 4, strict=True):
        await limit(side, entity, producer_byte_rate=rate)
        wanted = {rate == LOW}
        seen.append(await eventually(lambda: slowed(side, limited), lambda now, wanted=wanted: now == wanted))
    for entity in BY_PRECEDENCE:
        await limit(side, entity, producer_byte_rate=None)

    assert [{False}, *([{True}, {False}] * 4)] == seen
    assert {False} == await eventually(lambda: slowed(side, limited), lambda now: now == {False})


async def test_a_users_quota_on_reading_slows_it_and_nobody_else(
    side: Side, limited: Mapping[str, str], written: Mapping[str, str]
) -> None:
    """The bytes of `written` before are fewer than the quota allows at once."""
    for at in AT:
        await side.clients.answer("produce", written, topic=at, count=MORE_THAN_LOW, size=KILO)
    settings = {"group.id": "slow", "auto.offset.reset": "earliest", "max.partition.fetch.bytes": str(2 * KILO)}

    async def reads(client: Mapping[str, str]) -> bool:
        wanted = {"topics": [*AT], "count": MORE_THAN_LOW * len(AT), "withinMs": WITHIN_MS}
        return bool((await side.clients.answer("consume", {**client, **settings}, **wanted))["throttledMs"] > 0)

    free = await reads(limited)
    await limit(side, {"user": USER}, consumer_byte_rate=LOW)
    assert await eventually(lambda: reads(limited))
    other = await reads(written)
    await limit(side, {"user": USER}, consumer_byte_rate=None)

    assert (False, False) == (free, other)
    assert not await eventually(lambda: reads(limited), lambda now: not now)


async def test_a_users_quota_on_requests_slows_it_and_nobody_else(
    side: Side, limited: Mapping[str, str], written: Mapping[str, str]
) -> None:
    before = await slowed(side, limited, FEW)
    await limit(side, {"user": USER}, request_percentage=0.01)
    assert {True} == await eventually(lambda: slowed(side, limited, FEW), lambda now: now == {True})
    other = await slowed(side, written, FEW)
    await limit(side, {"user": USER}, request_percentage=None)

    assert ({False}, {False}) == (before, other)
    assert {False} == await eventually(lambda: slowed(side, limited, FEW), lambda now: now == {False})


async def test_a_users_quota_on_partitions_refuses_more_than_it_allows(
    side: Side, limited: Mapping[str, str], written: Mapping[str, str]
) -> None:
    """The controller counts; an envelope has the client's principal. KIP-599."""

    async def created(client: Mapping[str, str], name: str, *, patient: bool = False) -> object:
        answer = await side.clients.answer("createTopic", client, name=name, partitions=20, patient=patient)
        return answer.get("error") or answer["ok"]

    await limit(side, {"user": USER}, controller_mutation_rate=1.0)
    first, second = await created(limited, "first"), await created(limited, "second")
    other = await created(written, "of-another")
    waited = await created(limited, "second", patient=True)
    await limit(side, {"user": USER}, controller_mutation_rate=None)

    assert (True, "ThrottlingQuotaExceededException") == (first, second)
    assert (True, True) == (other, waited)
    assert [True, True] == [await created(limited, each) for each in ("third", "fourth")]


CONNECTIONS: Final = 8
ANSWER_WITHIN_S: Final = 30.0


async def answered_at(port: int, address: str) -> int:
    """How many of some connections at once a broker answers; those beyond a quota it closes after a while. KIP-612."""
    api = next(each for each in all_apis().values() if each.name == "ApiVersions")
    frame = encode_request(api, ApiVersionsRequest(), version=0, correlation_id=7, client_id=None)

    async def is_answered() -> bool:
        reader, writer = await asyncio.open_connection(HOST, port, local_addr=(address, 0))
        try:
            writer.write(len(frame).to_bytes(4) + frame)
            return bool(await asyncio.wait_for(reader.read(1), ANSWER_WITHIN_S))
        except ConnectionResetError:
            return False
        finally:
            writer.close()

    return sum(await asyncio.gather(*(is_answered() for _ in range(CONNECTIONS))))


async def test_an_addresss_quota_on_new_connections_counts_before_that_of_all(side: Side) -> None:
    here, one, another = HOST, "127.0.0.2", "127.0.0.3"

    async def counts(address: str) -> list[int]:
        return [await answered_at(port, address) for port in side.login_ports.values()]

    def few(seen: list[int]) -> bool:
        return all(0 < each < CONNECTIONS for each in seen)

    free = [CONNECTIONS] * len(AT)
    before = await counts(one)
    await limit(side, {"ip": one}, connection_creation_rate=1.0)
    await eventually(lambda: counts(one), few)
    assert (free, free) == (before, await counts(another))

    await limit(side, {"ip": here}, connection_creation_rate=1e6)  # the brokers' own connections
    await limit(side, {"ip": one}, connection_creation_rate=1e6)
    await limit(side, {"ip": ANY}, connection_creation_rate=1.0)
    await eventually(lambda: counts(another), few)
    assert free == await eventually(lambda: counts(one), lambda seen: seen == free)

    for address in (ANY, one, here):
        await limit(side, {"ip": address}, connection_creation_rate=None)
    assert free == await eventually(lambda: counts(another), lambda seen: seen == free)
