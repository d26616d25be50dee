"""Brokers of two releases of Kafka on our quorum, from their first start to an upgrade, and the tools that ask them.

The tests are one story: each leaves all brokers ready.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.kafka.node import ToolFailed
from deploy.kafka.release import POM, version
from tests.e2e.calls import eventually
from tests.interop.kafka.fleet import CONFIGS, TOOLS, Fleet, fleet_of
from tests.interop.kafka.libraries import PARTITIONS, RETENTION, VALUES, ByConfluent, ByKafkaPython
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

OLDEST: Final = 101
"""The broker of the oldest release; the others are of the newest."""
BROKERS: Final = {OLDEST: OLDEST_POM, 102: OPERATIONS_POM, 103: OPERATIONS_POM}
LEVEL: Final = "4.0-IV3"
"""The highest metadata.version that the oldest release takes."""
RECORDS: Final = 1000
TOPIC: Final = "orders"
SEND: Final = f"{RECORDS} records sent"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with fleet_of(tmp_path_factory.mktemp("fleet"), BROKERS, level=LEVEL) as brokers:
        yield brokers


async def test_the_oldest_releases_tool_makes_a_topic_that_both_releases_serve(fleet: Fleet) -> None:
    create = ("--create", "--topic", TOPIC, "--partitions", 3, "--replication-factor", 3)
    await fleet.ask(TOOLS + "TopicCommand", *create, "--config", "min.insync.replicas=2", pom=OLDEST_POM)
    produced = await fleet.produce(TOPIC, RECORDS)
    consumed = await fleet.consume(TOPIC, RECORDS, "--group", "readers")
    described = await fleet.ask(TOOLS + "TopicCommand", "--describe", "--topic", TOPIC)
    group = await fleet.ask(TOOLS + "consumer.group.ConsumerGroupCommand", "--describe", "--group", "readers")
    # The producer may leave a partition empty, and then a reader may end before it knows its position there.
    read = re.findall(rf"^readers +{TOPIC} +\d +(\d+|-) +\d+ +([0-]) ", group, re.M)

    assert sorted(BROKERS) == sorted(await fleet.leaders(TOPIC))
    assert 3 == len(re.findall(r"Leader: \d+\tReplicas: \d+,\d+,\d+\tIsr: \d+,\d+,\d+", described))
    assert produced.startswith(SEND)
    assert RECORDS == len(consumed)
    assert 3 == len(read)
    assert RECORDS == sum(int(offset) for offset, _ in read if offset != "-")


@pytest.mark.parametrize("pom", [OLDEST_POM, POM], ids=["oldest", "newest that has tools"])
async def test_the_tools_describe_the_same_cluster_through_a_broker_and_a_gateway(fleet: Fleet, pom: Path) -> None:
    quorum, features, cluster = (TOOLS + name for name in ("MetadataQuorumCommand", "FeatureCommand", "ClusterTool"))
    seen = []
    for ask in (fleet.ask, fleet.ask_controller):
        status = await ask(quorum, "describe", "--status", pom=pom)
        lines = dict(re.findall(r"^(\w+): +(.*)$", status, re.M))
        voters = {each["id"]: each["endpoints"] for each in json.loads(lines["CurrentVoters"])}
        observers = {each["id"] for each in json.loads(lines["CurrentObservers"])}
        told = await ask(features, "describe", pom=pom)
        # A broker lists the features that its release knows.
        levels = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: ([^0]\S*)", told))
        seen.append((lines["ClusterId"], voters, levels))
        assert set(BROKERS) == observers
        assert int(lines["LeaderId"]) in voters
    at_broker, at_gateway = seen
    addresses = enumerate(fleet.plane.plan.bootstrap_controllers.split(","), 1)

    assert at_broker == at_gateway
    cluster_id, voters, levels = at_broker
    assert fleet.plane.plan.cluster_id == cluster_id
    assert {number: [f"CONTROLLER://{at}"] for number, at in addresses} == voters
    assert (LEVEL, "2") == (levels["metadata.version"], levels["transaction.version"])

    # The tool takes its own word before the addresses.
    where = ("list-endpoints", "--include-fenced-brokers", "--bootstrap-server", fleet.bootstrap_servers)
    rows = [line.split() for line in (await fleet.run(cluster, *where, pom=pom)).splitlines()[1:]]
    assert {str(broker_id): "unfenced" for broker_id in BROKERS} == {row[0]: row[-2] for row in rows}


async def test_a_dynamic_config_takes_effect_on_the_broker(fleet: Fleet) -> None:
    await fleet.ask(TOOLS + "TopicCommand", "--create", "--topic", "small", "--replication-factor", 3)
    config = ("--alter", "--entity-type")
    await fleet.ask(CONFIGS, *config, "topics", "--entity-name", "small", "--add-config", "max.message.bytes=2000")
    await fleet.ask(CONFIGS, *config, "brokers", "--entity-name", OLDEST, "--add-config", "num.io.threads=3")
    await fleet.ask_controller(CONFIGS, *config, "brokers", "--entity-default", "--add-config", "log.cleaner.threads=2")
    with pytest.raises(ToolFailed, match="InvalidConfigurationException: topic 'small': 'nonsense' is no topic config"):
        await fleet.ask(CONFIGS, *config, "topics", "--entity-name", "small", "--add-config", "nonsense=1")
    described = ("--describe", "--entity-type", "brokers", "--entity-name", OLDEST)
    shown = "num.io.threads=3 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:num.io.threads=3, STATIC_BROKER"
    await fleet.ask_until(lambda seen: shown in seen, CONFIGS, *described)

    async def produced() -> str:
        return await fleet.produce("small", 1, size=4000)

    async def said() -> list[str]:
        return [broker.says.read_text(errors="replace") for broker in fleet.brokers.values()]

    await eventually(produced, lambda seen: seen.startswith("0 records sent"))
    await eventually(said, lambda seen: "Resizing request handler thread pool size from 2 to 3" in seen[0])
    await eventually(said, lambda seen: all("log.cleaner.threads -> 2" in each for each in seen))


@pytest.mark.parametrize("pom", [OLDEST_POM, POM], ids=["oldest", "newest that has tools"])
async def test_quotas_and_scram_users_are_made_and_told_through_a_broker(fleet: Fleet, pom: Path) -> None:
    user, client = f"user-{version(pom)}", f"client-{version(pom)}"
    of_user = ("--entity-type", "users", "--entity-name", user)
    of_client = ("--entity-type", "clients", "--entity-name", client)
    await fleet.ask(CONFIGS, "--alter", *of_user, "--add-config", "SCRAM-SHA-256=[password=secret]", pom=pom)
    await fleet.ask(CONFIGS, "--alter", *of_client, "--add-config", "producer_byte_rate=1000", pom=pom)
    scram = f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=4096"
    quota = f"Quota configs for client-id '{client}' are producer_byte_rate=1000.0"
    await fleet.ask_until(lambda seen: scram in seen, CONFIGS, "--describe", *of_user, pom=pom)
    await fleet.ask_until(lambda seen: quota in seen, CONFIGS, "--describe", *of_client, pom=pom)
    with pytest.raises(ToolFailed, match="InvalidRequestException"):
        await fleet.ask(CONFIGS, "--alter", *of_client, "--add-config", "producer_byte_rate=-1", pom=pom)


async def test_transactions_commit_and_their_producer_ids_are_ours(fleet: Fleet) -> None:
    await fleet.ask(TOOLS + "TopicCommand", "--create", "--topic", "paid", "--replication-factor", 3)
    in_transactions = ("--transactional-id", "payer", "--transaction-duration-ms", 50)
    produced = await fleet.produce("paid", RECORDS, *in_transactions)
    committed = ("--isolation-level", "read_committed")
    consumed = await fleet.consume("paid", RECORDS, *committed)

    async def state() -> list[str]:
        told = await fleet.ask(TOOLS + "TransactionsCommand", "list")
        return re.findall(r"^payer\s+\d+\s+\d+\s+(\w+)", told, re.M)

    assert produced.startswith(SEND)
    assert RECORDS == len(consumed)
    await eventually(state, lambda seen: seen == ["CompleteCommit"])


@pytest.mark.parametrize("library", [ByConfluent, ByKafkaPython], ids=lambda each: each.name)
async def test_a_client_of_another_make_does_its_work(
    fleet: Fleet, library: type[ByConfluent] | type[ByKafkaPython]
) -> None:
    client = await asyncio.to_thread(library, fleet.bootstrap_servers)

    async def replica_counts() -> list[int]:
        topic = (await fleet.plane.topics(at=1)).get(client.name)
        return [len(each.replica_nodes) for each in topic.partitions] if topic else []

    await asyncio.to_thread(client.create)
    assert [2] * PARTITIONS == await eventually(replica_counts)
    assert len(VALUES) == await asyncio.to_thread(client.produce)
    assert sorted(VALUES) == sorted(await asyncio.to_thread(client.consume))
    assert len(VALUES) == await asyncio.to_thread(client.committed)

    await asyncio.to_thread(client.configure)
    await eventually(lambda: asyncio.to_thread(client.retention), lambda seen: seen == RETENTION[1])
    await asyncio.to_thread(client.grow)
    assert await eventually(replica_counts, lambda seen: [2] * (PARTITIONS + 1) == seen)
    await asyncio.to_thread(client.delete)
    await eventually(replica_counts, lambda seen: not seen)


async def test_replicas_move_as_the_tool_says(fleet: Fleet, tmp_path: Path) -> None:
    reassign, plan = TOOLS + "reassign.ReassignPartitionsCommand", tmp_path / "plan.json"
    await fleet.ask(TOOLS + "TopicCommand", "--create", "--topic", "moved", "--replica-assignment", "101:102,102:103")
    await fleet.produce("moved", RECORDS)
    wanted = [{"topic": "moved", "partition": number, "replicas": [103, 101]} for number in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    await fleet.ask(reassign, "--reassignment-json-file", plan, "--execute")

    verify = ("--reassignment-json-file", plan, "--verify")
    await fleet.ask_until(lambda seen: 2 == seen.count("is completed."), reassign, *verify)
    listed = await fleet.ask_controller(reassign, "--list")

    async def replicas() -> list[list[int]]:
        return [list(each.replica_nodes) for each in (await fleet.plane.topics(at=1))["moved"].partitions]

    await eventually(replicas, lambda seen: [[103, 101]] * 2 == seen)
    assert "No partition reassignments found." in listed
    assert RECORDS == len(await fleet.consume("moved", RECORDS))


async def test_a_controlled_shutdown_moves_the_leaders_and_an_election_brings_them_back(
    fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.stop(OLDEST)
    ended = fleet.brokers[OLDEST].says.read_text(errors="replace")

    async def leaders() -> list[int]:
        return await fleet.leaders(TOPIC)

    await eventually(leaders, lambda seen: not {OLDEST, -1} & set(seen))
    produced = await fleet.produce(TOPIC, RECORDS)
    await fleet.start(OLDEST)
    await fleet.in_sync(TOPIC)
    elected = tmp_path / "elected.json"
    elected.write_text(json.dumps({"partitions": [{"topic": TOPIC, "partition": number} for number in range(3)]}))
    election = ("--election-type", "preferred", "--path-to-json-file", elected)
    await fleet.ask(TOOLS + "LeaderElectionCommand", *election)

    assert "The controller has asked us to exit controlled shutdown" in ended
    assert produced.startswith(SEND)
    assert await eventually(leaders, lambda seen: sorted(BROKERS) == sorted(seen))
    assert 2 * RECORDS == len(await fleet.consume(TOPIC, 2 * RECORDS))


async def test_another_broker_leads_after_a_kill(fleet: Fleet) -> None:
    fleet.brokers[102].kill()

    async def leaders() -> list[int]:
        return await fleet.leaders(TOPIC)

    await eventually(leaders, lambda seen: not {102, -1} & set(seen))
    produced = await fleet.produce(TOPIC, RECORDS)
    await fleet.start(102)
    await fleet.in_sync(TOPIC)

    assert produced.startswith(SEND)
    assert 3 * RECORDS == len(await fleet.consume(TOPIC, 3 * RECORDS))


async def test_brokers_go_on_when_our_active_controller_its_node_and_its_gateway_are_killed(fleet: Fleet) -> None:
    plane = fleet.plane
    active = await plane.active()
    for each in (plane.controller(active), plane.plan.gateways[active - 1], plane.quorum(active)):
        await plane.kill(each)
    create = ("--create", "--if-not-exists", "--topic", "meanwhile", "--replication-factor", 3)
    await fleet.ask(TOOLS + "TopicCommand", *create)
    produced = await fleet.produce("meanwhile", RECORDS)
    await plane.heal()

    assert produced.startswith(SEND)
    assert RECORDS == len(await fleet.consume("meanwhile", RECORDS))


async def test_the_level_is_raised_once_the_oldest_release_is_gone(fleet: Fleet) -> None:
    async def raised() -> str:
        """A leader learns a voter's directory id some time after its election, and kraft.version 1 needs them."""
        try:
            return await fleet.ask(TOOLS + "FeatureCommand", "upgrade", "--release-version", "4.3")
        except ToolFailed as refusal:
            return str(refusal)

    refused = await eventually(raised, lambda seen: "has not announced its directory id" not in seen)
    await fleet.stop(OLDEST)
    await fleet.restart_as(OLDEST, OPERATIONS_POM)
    await fleet.in_sync(TOPIC)
    await eventually(raised, lambda seen: "has not announced its directory id" not in seen)
    level = re.compile(r"metadata.version .*FinalizedVersionLevel: 4.3-IV0")
    described = await fleet.ask_until(level.search, TOOLS + "FeatureCommand", "describe")
    await fleet.stop(OLDEST)  # from now on the voters are in the log: kraft.version is 1
    await fleet.start(OLDEST)
    produced = await fleet.produce(TOPIC, RECORDS)

    assert "metadata.version cannot go to 30 (4.3-IV0): broker 101 supports 7 to 25" in refused
    assert re.search(r"eligible.leader.replicas.version .*FinalizedVersionLevel: 1", described)
    assert produced.startswith(SEND)
    assert 4 * RECORDS == len(await fleet.consume(TOPIC, 4 * RECORDS))
