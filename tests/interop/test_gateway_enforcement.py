"""Brokers of two releases enforce what our log says: ACLs, SCRAM users, delegation tokens, client quotas.

Each broker has a listener for clients that log in, and one for tools, where everybody is a super user.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import pytest_asyncio

from deploy.kafka.node import ToolFailed
from deploy.local.ports import HOST, free_ports
from tests.e2e.calls import eventually
from tests.interop.kafka.fleet import CONFIGS, PERFORMANCE, TOOLS, Fleet, fleet_of
from tests.interop.kafka.guarded import AT, BROKERS, LEVEL, OF_CONTROLLERS, login, settings_of
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

TOPICS: Final = TOOLS + "TopicCommand"
ACLS: Final = TOOLS + "AclCommand"
TOKENS: Final = TOOLS + "DelegationTokenCommand"
RECORDS: Final = 3
QUOTA: Final = 20_000
"""Bytes a second; over two windows of a second (`quota.window.num`) a broker allows twice as many."""
ALL: Final = [RECORDS, RECORDS]
NONE: Final = [0, 0]
TO_ALL_OF_THEM: Final = ("--topic", "at-", "--resource-pattern-type", "prefixed")


class Guarded(NamedTuple):
    """Brokers with an authorizer, and their addresses for clients that log in."""

    fleet: Fleet
    servers: str

    async def add_user(self, name: str) -> dict[str, str]:
        """A new SCRAM user, made by Kafka's tool through a broker, and a client's properties for its login."""
        password = secrets.token_hex(8)
        of_user = ("--entity-type", "users", "--entity-name", name)
        await self.fleet.ask(CONFIGS, "--alter", *of_user, "--add-config", f"SCRAM-SHA-256=[password={password}]")
        return login(name, password)

    async def says(self, client: Mapping[str, str], main: str, *arguments: object, at: str = "") -> str:
        """What a tool says that logs in at one broker, or any. Raises ToolFailed."""
        where = ("--bootstrap-server", at or self.servers, "--command-config", self._written(client))
        return await self.fleet.run(main, *where, *arguments)

    async def gets_in(self, client: Mapping[str, str], at: str) -> bool:
        """Whether a broker lets it log in; one that refuses says so in Kafka's words."""
        try:
            await self.says(client, TOPICS, "--list", at=at)
        except ToolFailed as refused:
            assert "SaslAuthenticationException" in str(refused), refused
            return False
        return True

    async def logs_in(self, client: Mapping[str, str], *, wanted: bool = True) -> None:
        """Waits until each broker lets it log in, or until none does."""
        for server in self.servers.split(","):
            await eventually(lambda at=server: self.gets_in(client, at), lambda seen: seen == wanted)

    async def written(self, client: Mapping[str, str]) -> list[int]:
        """How many records each broker acknowledges of those that were sent to it."""
        return [int(each.partition(" records sent")[0]) for each in await self.produce(client)]

    async def produce(
        self, client: Mapping[str, str], *more: object, count: int = RECORDS, size: int = 100
    ) -> list[str]:
        """What the tool says of the records sent to each broker."""
        properties = {"bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": "false", **client}
        config = self._written(properties)
        records = ("--num-records", count, "--record-size", size, "--throughput", -1)
        return [
            await self.fleet.run(PERFORMANCE, "--topic", topic, *records, "--command-config", config, *more)
            for topic in AT
        ]

    def _written(self, properties: Mapping[str, str]) -> Path:
        file = self.fleet.plane.plan.directory / f"{secrets.token_hex(8)}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))

    directory = tmp_path_factory.mktemp("guarded")
    own = settings_of(ports)
    async with fleet_of(directory, BROKERS, level=LEVEL, controller_settings=OF_CONTROLLERS, settings_of=own) as fleet:
        for topic, broker_id in AT.items():
            await fleet.ask(TOPICS, "--create", "--topic", topic, "--replica-assignment", broker_id)
        yield Guarded(fleet, ",".join(f"{HOST}:{port}" for port in ports.values()))


async def allow(guarded: Guarded, user: str, operation: str, *resource: str) -> tuple[str, ...]:
    """Lets a user do it, by Kafka's tool through a broker; the answer is what `--remove` takes it back with."""
    entry = ("--allow-principal", f"User:{user}", "--operation", operation, *resource)
    await guarded.fleet.ask(ACLS, "--add", *entry)
    return entry


async def test_an_acl_lets_a_client_produce_and_its_removal_stops_it(guarded: Guarded) -> None:
    alice = await guarded.add_user("alice")

    async def written() -> list[int]:
        return await guarded.written(alice)

    await guarded.logs_in(alice)
    before = await written()
    entry = await allow(guarded, "alice", "Write", *TO_ALL_OF_THEM)
    allowed = await eventually(written, lambda seen: seen == ALL)
    await guarded.fleet.ask(ACLS, "--remove", "--force", *entry)

    assert NONE == before
    assert ALL == allowed
    assert NONE == await eventually(written, lambda seen: seen == NONE)


async def test_what_a_broker_passes_on_is_judged_by_the_rights_of_its_client(guarded: Guarded) -> None:
    """The broker asks as itself, a super user; the client's own rights are in our controller's hands."""
    carol = await guarded.add_user("carol")
    await guarded.logs_in(carol)
    create = ("--create", "--topic", "carols-own")
    with pytest.raises(ToolFailed, match="TopicAuthorizationException"):
        await guarded.says(carol, TOPICS, *create)
    await allow(guarded, "carol", "Create", "--topic", "carols-", "--resource-pattern-type", "prefixed")

    async def created() -> str:
        try:
            return await guarded.says(carol, TOPICS, *create)
        except ToolFailed as refused:
            return str(refused)

    assert "Created topic carols-own" in await eventually(created, lambda seen: "Authorization" not in seen)
    with pytest.raises(ToolFailed, match="TopicAuthorizationException"):
        await guarded.says(carol, TOPICS, "--create", "--topic", "not-carols-own")


async def test_a_scram_user_logs_in_at_each_broker_until_it_is_deleted(guarded: Guarded) -> None:
    bob = await guarded.add_user("bob")
    await guarded.logs_in(bob)
    await guarded.logs_in(login("bob", "guess"), wanted=False)
    delete = ("--alter", "--entity-type", "users", "--entity-name", "bob", "--delete-config", "SCRAM-SHA-256")
    await guarded.fleet.ask(CONFIGS, *delete)
    await guarded.logs_in(bob, wanted=False)


async def test_a_delegation_token_made_through_a_broker_logs_in_with_its_owners_rights(guarded: Guarded) -> None:
    dave = await guarded.add_user("dave")
    await allow(guarded, "dave", "Write", *TO_ALL_OF_THEM)
    await guarded.logs_in(dave)
    made = await guarded.says(dave, TOKENS, "--create", "--max-life-time-period", -1, "--renewer-principal", "User:eve")
    token_id, hmac = re.findall(r"^(\S+)\s+(\S+)\s+User:dave\s", made, re.M)[0]
    token = login(token_id, hmac, ' tokenauth="true"')
    expire = ("--expire", "--hmac", hmac, "--expiry-time-period", -1)

    await guarded.logs_in(token)
    assert ALL == await eventually(lambda: guarded.written(token), lambda seen: seen == ALL)
    with pytest.raises(ToolFailed, match="UnsupportedByAuthenticationException"):
        await guarded.says(token, TOKENS, "--create", "--max-life-time-period", -1)  # not by a token
    assert token_id in await guarded.says(dave, TOKENS, "--describe", "--owner-principal", "User:dave")
    await guarded.says(dave, TOKENS, *expire)
    await guarded.logs_in(token, wanted=False)


async def test_a_client_quota_throttles_its_producers_until_it_is_deleted(guarded: Guarded) -> None:
    """The brokers say for how long, in their answers; that is what the producer's metric has."""
    of_client = ("--entity-type", "clients", "--entity-name", "slow")
    frank = await guarded.add_user("frank")
    await allow(guarded, "frank", "Write", *TO_ALL_OF_THEM)
    await eventually(lambda: guarded.written(frank), lambda seen: seen == ALL)

    async def throttled_ms(client_id: str = "slow") -> list[float]:
        client = {**frank, "client.id": client_id, "batch.size": "1000"}
        said = await guarded.produce(client, "--print-metrics", count=50, size=QUOTA // 20)
        metric = re.compile(rf"producer-metrics:produce-throttle-time-max:.*client-id={client_id}}} *: ([\d.]+)")
        return [float(metric.findall(each)[0]) for each in said]

    before = await throttled_ms()
    await guarded.fleet.ask(CONFIGS, "--alter", *of_client, "--add-config", f"producer_byte_rate={QUOTA}")
    meanwhile = await eventually(throttled_ms, all)
    others = await throttled_ms("quick")
    await guarded.fleet.ask(CONFIGS, "--alter", *of_client, "--delete-config", "producer_byte_rate")

    assert [0, 0] == before == others
    assert min(meanwhile) > 0
    assert [0, 0] == await eventually(throttled_ms, lambda seen: not any(seen))
