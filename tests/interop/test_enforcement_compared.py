"""What brokers of two releases enforce of our log and of a Kafka controller's: one script, the same answers.

Kafka's own Java clients ask; each test runs on either side.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

import pytest
import pytest_asyncio

from deploy.local.ports import HOST
from kraft.api.api_versions import ApiVersionsRequest
from quorate.protocol import all_apis
from quorate.protocol.messages import encode_request
from tests.e2e.calls import eventually
from tests.interop.kafka.guarded import AT, SIDES, Side
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

RECORDS: Final = 3
"""In each topic of `AT`."""
ALL: Final = RECORDS * len(AT)
WITHIN_MS: Final = 60_000
"""Against hanging alone: who may not read is told so."""
PROTOCOLS: Final = ("classic", "consumer")
"""The two ways to be in a group: the newer one is KIP-848's."""
NO_TOPIC, NO_GROUP = "TopicAuthorizationException", "GroupAuthorizationException"
NO_ID: Final = "TransactionalIdAuthorizationException"


class Entry(NamedTuple):
    """An ACL of one user, as Drive.java takes it."""

    operation: str
    type: str
    name: str
    pattern: str = "LITERAL"
    permission: str = "ALLOW"
    host: str = "*"

    def of(self, principal: str) -> dict[str, str]:
        return {**self._asdict(), "principal": principal}


TOPICS: Final = Entry("READ", "TOPIC", "at-", "PREFIXED")
GROUP: Final = Entry("READ", "GROUP", "readers")
EACH_TOPIC: Final = tuple(TOPICS._replace(name=topic, pattern="LITERAL") for topic in AT)
READERS: Final[Mapping[str, tuple[tuple[Entry, ...], int | str]]] = {
    "no-group": ((TOPICS,), NO_GROUP),
    "no-topic": ((GROUP,), NO_TOPIC),
    "describe-only": ((TOPICS._replace(operation="DESCRIBE"), GROUP), NO_TOPIC),
    "describe-group-only": ((TOPICS, GROUP._replace(operation="DESCRIBE")), NO_GROUP),
    "prefixed": ((TOPICS, GROUP), ALL),
    "literal": ((*EACH_TOPIC, GROUP), ALL),
    "one-of-two": ((EACH_TOPIC[0], GROUP), NO_TOPIC),
    "prefix-as-literal": ((TOPICS._replace(pattern="LITERAL"), GROUP), NO_TOPIC),
    "wildcard": ((TOPICS._replace(name="*", pattern="LITERAL"), GROUP._replace(name="*")), ALL),
    "prefixed-group": ((TOPICS, GROUP._replace(name="read", pattern="PREFIXED")), ALL),
    "all-operations": ((TOPICS._replace(operation="ALL"), GROUP._replace(operation="ALL")), ALL),
    "other-host": ((TOPICS._replace(host="127.0.0.2"), GROUP), NO_TOPIC),
    "this-host": ((TOPICS._replace(host=HOST), GROUP), ALL),
    "topic-denied": ((TOPICS, GROUP, EACH_TOPIC[1]._replace(permission="DENY")), NO_TOPIC),
    "prefix-denied": ((*EACH_TOPIC, GROUP, TOPICS._replace(permission="DENY")), NO_TOPIC),
    "group-denied": ((TOPICS, GROUP, GROUP._replace(name="read", pattern="PREFIXED", permission="DENY")), NO_GROUP),
    "denied-elsewhere": ((TOPICS, GROUP, GROUP._replace(host="127.0.0.2", permission="DENY")), ALL),
}  # fmt: skip
"""By the name of a user: its ACLs, and how much it reads or how it is refused."""

PAID: Final = "paid"
WRITE: Final = Entry("WRITE", "TOPIC", PAID)
OF_ID: Final = Entry("WRITE", "TRANSACTIONAL_ID", "payer-", "PREFIXED")
WRITERS: Final[Mapping[str, tuple[tuple[Entry, ...], int | str]]] = {
    "both": ((WRITE, OF_ID), RECORDS),
    "no-id": ((WRITE,), NO_ID),
    "no-topic-to-write": ((OF_ID,), NO_TOPIC),
    "id-denied": ((WRITE, OF_ID, OF_ID._replace(name="payer-id-denied", pattern="LITERAL", permission="DENY")), NO_ID),
}
"""The same for producers with a transactional id."""


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


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_who_may_read_is_who_has_the_rights_on_topics_and_group(
    side: Side, users: Mapping[str, Mapping[str, str]], protocol: str
) -> None:
    seen = {name: await consumed(side, users[name], protocol) for name in READERS}

    assert {name: outcome for name, (_, outcome) in READERS.items()} == seen


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


LOW: Final = 20_000.0
"""Bytes a second; over two windows of a second (`quota.window.num`) a broker allows twice as many."""
HIGH: Final = 1e9
KILO: Final = 1000
MORE_THAN_LOW: Final = 60
"""Records of `KILO` bytes."""
FEW: Final = 5
"""Requests: whoever is throttled for their number waits a second after each."""
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
    """What `written` has written before is less than the quota allows at once."""
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


async def answered(port: int, address: str) -> int:
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
        return [await answered(port, address) for port in side.login_ports.values()]

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
