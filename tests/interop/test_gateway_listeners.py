"""Gateways with two listeners, as Kafka controllers have them: what each tells, and brokers that move.

The brokers go from the listener in the clear to the one with TLS, and back, as in services/TO_TLS.md: both listeners at
each gateway, then the brokers one after the other, then one listener alone. Where the voters are in the log, the quorum
nodes announce both meanwhile. A client of the brokers writes all the time, a topic is made through a broker at each
stage, and Kafka's tools ask the gateways at the brokers' listener.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.kafka.node import Node, tool
from deploy.local.plan import OWN_LISTENER, ClusterPlan
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.network.client import connect
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, uuid_text
from quorate.random_uuid import random_uuid
from tests.e2e.calls import eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane
from tests.e2e.kafka_listeners import KafkaListeners
from tests.interop.busy_brokers import Brokers, Writer, at_work
from tests.interop.kafka.quorum import QUIET
from tests.interop.kafka.release import absent
from tests.network.certificates import authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(1800),
]

CLEAR, SECURE = "CONTROLLER", "SECURE"
PREFIX: Final = "listener.name.secure."
BROKERS: Final = (101, 102)
WRITTEN: Final = "written-all-the-time"
TOOLS: Final = "org.apache.kafka.tools."
QUORUM: Final = DescribeQuorumRequest(
    (DescribeQuorumRequest.TopicData(METADATA_TOPIC, (DescribeQuorumRequest.TopicData.PartitionData(0),)),)
)
FETCH: Final = FetchRequest(
    topics=(
        FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(FetchRequest.FetchTopic.FetchPartition(),)),
    )
)
"""Of another epoch: it is refused, with the leader's address."""


class Moving:
    """The gateways and brokers of a control plane, and the settings of each at a listener."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        issuer = authority(directory)
        self.plan: ClusterPlan = cluster.plan
        self._cluster = cluster
        self._listeners = KafkaListeners.beside(cluster.plan, {CLEAR: "PLAINTEXT", SECURE: "SSL"})
        self._first = [dict(each.settings) for each in cluster.plan.gateways]
        self._gateway_tls = {
            f"{PREFIX}ssl.keystore.location": str(issuer.issue("gateway", "/O=cluster/CN=localhost")),
            f"{PREFIX}ssl.truststore.location": str(issuer.certificate),
            f"{PREFIX}ssl.client.auth": "required",
        }
        self._client_tls = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(issuer.issue("broker", "/O=cluster/CN=broker")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(issuer.certificate),
        }
        self._command_config = directory / "tool.properties"
        of_tool = {"security.protocol": "SSL", **self._client_tls}
        self._command_config.write_text("".join(f"{name}={value}\n" for name, value in of_tool.items()))

    def kafka_address(self, node_id: NodeId, listener: str = CLEAR) -> str:
        host, port = self._listeners.addresses[listener][node_id]
        return f"{host}:{port}"

    async def listen_at(self, *listeners: str) -> None:
        """The gateways have these, and the nodes announce them; a node announces nothing where no gateway listens.

        The first is the one to which the brokers move: the leader takes no voter without the first of its own.
        """
        is_more = len(listeners) > 1
        steps = (self._gateways_listen_at, self._nodes_announce)
        for step in steps if is_more else reversed(steps):
            await step(*listeners)

    async def _nodes_announce(self, *listeners: str) -> None:
        """Each quorum node ends in good order and comes back with its gateway's listeners in the voters record."""
        for node_id in VOTERS if self.plan.directory_ids else ():
            node = self._cluster.quorum(node_id)
            node.settings.update(self._listeners.announced(node, node_id, *listeners))
            assert 0 == await self._cluster.kill(node, signal.SIGTERM)
            await self._cluster.restart(node)

            async def recorded(node_id: NodeId = node_id) -> set[str]:
                return (await self._cluster.voter_listeners(at=1))[node_id]

            await eventually(recorded, lambda names: {*listeners, OWN_LISTENER} == names)

    async def _gateways_listen_at(self, *listeners: str) -> None:
        """Each gateway ends in good order and comes back with these, one after the other."""
        for node_id, gateway, first in zip(VOTERS, self.plan.gateways, self._first, strict=True):
            tls = self._gateway_tls if SECURE in listeners else {}
            gateway.settings.clear()
            gateway.settings.update(first | tls | self._listeners.settings(node_id, *listeners))
            assert 0 == await self._cluster.kill(gateway, signal.SIGTERM)
            await self._cluster.restart(gateway)

    def known_at(self, listener: str) -> dict[str, str]:
        """How a broker finds the voters: by its own settings, or where to ask if they are in the log."""
        servers = {each: self.kafka_address(each, listener) for each in VOTERS}
        if self.plan.directory_ids:
            return {"controller.quorum.bootstrap.servers": ",".join(servers.values()), "controller.quorum.voters": ""}
        voters = ",".join(f"{node_id}@{address}" for node_id, address in servers.items())
        return {"controller.quorum.bootstrap.servers": "", "controller.quorum.voters": voters}

    async def brokers_ask_at(self, brokers: Brokers, listener: str) -> None:
        """Each broker ends by a controlled shutdown and comes back there, once all have caught up with the last one."""
        protocol = {CLEAR: "PLAINTEXT", SECURE: "SSL"}[listener]
        settings = {
            **self.known_at(listener),
            "controller.listener.names": listener,
            "listener.security.protocol.map": f"{listener}:{protocol},PLAINTEXT:PLAINTEXT",
            **{f"{PREFIX}{name}": value for name, value in self._client_tls.items()},
        }
        for node in brokers.nodes.values():
            await asyncio.to_thread(node.stop)
            node.configure(settings)
            await asyncio.to_thread(node.start().wait_ready)
            await brokers.whole([WRITTEN])

    async def told_at(self, listener: str) -> tuple[dict[NodeId, list[str]], set[str]]:
        """What Kafka's tools say at a listener: each voter's endpoints, and the addresses of all controllers."""
        where = ("--bootstrap-controller", ",".join(self.kafka_address(each, listener) for each in VOTERS))
        config: tuple[object, ...] = ("--command-config", self._command_config) if listener == SECURE else ()
        quorum, cluster = TOOLS + "MetadataQuorumCommand", TOOLS + "ClusterTool"
        status = await asyncio.to_thread(tool, quorum, *where, *config, "describe", "--status")
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        listed = await asyncio.to_thread(tool, cluster, "list-endpoints", *where, *config)
        rows = [line.split() for line in listed.splitlines()[1:]]
        voters = {each["id"]: sorted(each["endpoints"]) for each in json.loads(lines["CurrentVoters"])}
        return voters, {f"{row[1]}:{row[2]}" for row in rows}

    async def topics(self) -> set[str]:
        """The names of those that a controller knows."""
        return {*await self._cluster.topics(at=1)}

    def expected_at(self, listener: str, *all_of: str) -> tuple[Mapping[NodeId, list[str]], set[str]]:
        voters = {each: sorted(f"{name}://{self.kafka_address(each, name)}" for name in all_of) for each in VOTERS}
        return voters, {self.kafka_address(each, listener) for each in VOTERS}


async def test_brokers_move_to_the_listener_with_tls_and_back_while_a_client_writes(tmp_path: Path) -> None:
    async with moving_plane(tmp_path, is_dynamic=True) as (moving, brokers):
        await to_tls(moving, brokers)
        await moving.listen_at(CLEAR, SECURE)
        await moving.brokers_ask_at(brokers, CLEAR)
        await brokers.create("by-both-again")
        await moving.listen_at(CLEAR)
        await brokers.create("in-the-clear-again")
        assert moving.expected_at(CLEAR, CLEAR) == await moving.told_at(CLEAR)
        made = await moving.topics()

    assert {"before", "by-both", "by-tls-alone", "by-both-again", "in-the-clear-again", WRITTEN} <= made


async def test_brokers_with_static_voters_move_to_the_listener_with_tls_while_a_client_writes(tmp_path: Path) -> None:
    """The way back has the same steps."""
    async with moving_plane(tmp_path, is_dynamic=False) as (moving, brokers):
        await to_tls(moving, brokers)
        made = await moving.topics()

    assert {"before", "by-both", "by-tls-alone", WRITTEN} <= made


@asynccontextmanager
async def moving_plane(directory: Path, *, is_dynamic: bool) -> AsyncIterator[tuple[Moving, Brokers]]:
    """All run and speak in the clear, and a client writes until the end."""
    plane = control_plane(
        directory / "plane",
        quorum_settings=PATIENT,
        controller_settings=QUIET,
        with_gateways=True,
        announces_gateways=is_dynamic,
        dynamic=is_dynamic,
        with_stand_ins=False,
        is_observed=False,
    )
    async with plane as cluster:
        moving = Moving(cluster, directory)
        brokers = Brokers(moving, BROKERS, VOTERS, moving.known_at(CLEAR))
        async with at_work(brokers, Writer(brokers, WRITTEN)):
            yield moving, brokers


async def to_tls(moving: Moving, brokers: Brokers) -> None:
    await moving.listen_at(SECURE, CLEAR)
    await brokers.create("before")
    assert moving.expected_at(CLEAR, CLEAR, SECURE) == await moving.told_at(CLEAR)
    assert moving.expected_at(SECURE, CLEAR, SECURE) == await moving.told_at(SECURE)

    await moving.brokers_ask_at(brokers, SECURE)
    await brokers.create("by-both")
    await moving.listen_at(SECURE)
    await brokers.create("by-tls-alone")
    assert moving.expected_at(SECURE, SECURE) == await moving.told_at(SECURE)


async def test_a_listener_tells_what_that_of_a_kafkas_controller_tells(tmp_path: Path) -> None:
    """At each the addresses of that listener; DescribeQuorum all that the voters record has.

    Static voters have one listener in Kafka, the first of controller.listener.names; a gateway knows of all.
    """
    listeners = KafkaListeners(VOTERS, {"FIRST": "PLAINTEXT", "SECOND": "PLAINTEXT"})
    at_kafka = {name: addresses[1] for name, addresses in listeners.addresses.items()}
    in_the_log = await told_by_kafkas(at_kafka, tmp_path / "in-the-log", is_static=False)
    static = await told_by_kafkas(at_kafka, tmp_path / "static", is_static=True)
    settings = {node_id: listeners.settings(node_id, "FIRST", "SECOND") for node_id in VOTERS}
    plane = control_plane(
        tmp_path / "plane", with_gateways=True, gateway_settings=settings, with_stand_ins=False, is_observed=False
    )
    async with plane as cluster:
        leader_id = await cluster.active()
        by_name = {name: addresses[leader_id] for name, addresses in listeners.addresses.items()}
        ours = {name: await told(address, by_name) for name, address in by_name.items()}

    both = {name: (name, ("FIRST", "SECOND"), name) for name in at_kafka}
    assert both == in_the_log
    assert {name: (name, ("FIRST",), name) for name in at_kafka} == static
    assert both == ours


async def told_by_kafkas(
    at: Mapping[str, tuple[str, int]], directory: Path, *, is_static: bool
) -> dict[str, tuple[Any, ...] | None]:
    """What a Kafka controller tells at each of its listeners."""
    with Node(directory, two_listeners(at, is_static=is_static, data=directory)) as node:
        await asyncio.to_thread(node.format, uuid_text(random_uuid()), *(() if is_static else ("--standalone",)))
        await asyncio.to_thread(node.start().wait_ready)
        return {name: await eventually(lambda address=address: told(address, at), bool) for name, address in at.items()}


def two_listeners(at: Mapping[str, tuple[str, int]], *, is_static: bool, data: Path) -> dict[str, object]:
    """The properties of a Kafka controller, node 1."""
    (host, port) = at["FIRST"]
    known = {"controller.quorum.voters": f"1@{host}:{port}"} if is_static else {}
    return {
        "process.roles": "controller",
        "node.id": 1,
        "listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in at.items()),
        "controller.listener.names": ",".join(at),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in at),
        "log.dirs": data / "data",
        "controller.quorum.bootstrap.servers": f"{host}:{port}",
        **known,
    }


async def told(address: tuple[str, int], by_name: Mapping[str, tuple[str, int]]) -> tuple[Any, ...] | None:
    """By the names of the leader's listeners: what DescribeCluster, DescribeQuorum and Fetch tell of where it is.

    None while it has not registered yet.
    """
    name_of = {port: name for name, (_, port) in by_name.items()}  # Kafka has localhost for a static voter's 127.0.0.1
    async with await connect(*address) as client:
        cluster = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(endpoint_type=2))
        quorum = await client.ask_for(DescribeQuorumResponse, QUORUM)
        fetched = await client.ask_for(FetchResponse, FETCH)
    own = [each for each in cluster.brokers if each.broker_id == cluster.controller_id]
    if not own:
        return None
    (voter,) = [each for each in quorum.nodes if each.node_id == cluster.controller_id]
    (leader,) = fetched.node_endpoints
    assert all(name_of[at.port] == at.name for at in voter.listeners)
    return name_of[own[0].port], tuple(sorted(at.name for at in voter.listeners)), name_of[leader.port]
