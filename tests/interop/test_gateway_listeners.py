"""Brokers of a Kafka release move from a gateway's listener in the clear to the one with TLS, and back, at work.

As in services/TO_TLS.md: both listeners at each gateway, then the brokers one after the other, then one listener alone.
A client of the brokers writes all the time, a topic is made through a broker at each stage, and Kafka's tools ask the
gateways at the listener that the brokers have moved to.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

pytest.register_assert_rewrite("tests.interop.busy_brokers", "tests.e2e.cluster")

from deploy.local.plan import ClusterPlan  # noqa: E402  # assertions of the helpers tell values from here on
from quorate.nouns import NodeId  # noqa: E402
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane  # noqa: E402
from tests.e2e.kafka_listeners import KafkaListeners  # noqa: E402
from tests.interop.busy_brokers import Brokers, Writer, at_work  # noqa: E402
from tests.interop.kafka.release import absent  # noqa: E402
from tests.interop.kafka.toolbox import Toolbox  # noqa: E402
from tests.network.certificates import authority  # noqa: E402

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]

CLEAR, SECURE = "CONTROLLER", "SECURE"
PREFIX: Final = "listener.name.secure."
BROKERS: Final = (101, 102)
WRITTEN: Final = "written-all-the-time"
TOOLS: Final = "org.apache.kafka.tools."


class Moving:
    """The gateways and brokers of a control plane, and the settings of each at a listener."""

    def __init__(self, cluster: Cluster, directory: Path, tools: Toolbox) -> None:
        self._tools = tools
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

    async def gateways_listen_at(self, *listeners: str) -> None:
        """Each gateway ends in good order and comes back with these, one after the other."""
        for node_id, gateway, first in zip(VOTERS, self.plan.gateways, self._first, strict=True):
            tls = self._gateway_tls if SECURE in listeners else {}
            gateway.settings.clear()
            gateway.settings.update(first | tls | self._listeners.settings(node_id, *listeners))
            assert 0 == await self._cluster.kill(gateway, signal.SIGTERM)
            await self._cluster.restart(gateway)

    def known_at(self, listener: str) -> dict[str, str]:
        """How a broker finds the voters, which are not in the log here: by its own settings."""
        voters = ",".join(f"{each}@{self.kafka_address(each, listener)}" for each in VOTERS)
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
        status = await self._tools.run(quorum, *where, *config, "describe", "--status")
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        listed = await self._tools.run(cluster, "list-endpoints", *where, *config)
        rows = [line.split() for line in listed.splitlines()[1:]]
        voters = {each["id"]: sorted(each["endpoints"]) for each in json.loads(lines["CurrentVoters"])}
        return voters, {f"{row[1]}:{row[2]}" for row in rows}

    def expected_at(self, listener: str, *all_of: str) -> tuple[Mapping[NodeId, list[str]], set[str]]:
        voters = {each: sorted(f"{name}://{self.kafka_address(each, name)}" for name in all_of) for each in VOTERS}
        return voters, {self.kafka_address(each, listener) for each in VOTERS}


async def test_brokers_move_to_the_listener_with_tls_and_back_while_a_client_writes(tmp_path: Path) -> None:
    plane = control_plane(tmp_path / "plane", quorum_settings=PATIENT, with_gateways=True, with_stand_ins=False)
    with Toolbox() as tools:
        async with plane as cluster:
            moving = Moving(cluster, tmp_path, tools)
            brokers = Brokers(moving, BROKERS, VOTERS, moving.known_at(CLEAR))
            async with at_work(brokers, Writer(brokers, WRITTEN)):
                await moving.gateways_listen_at(CLEAR, SECURE)
                await brokers.create("before")
                assert moving.expected_at(CLEAR, CLEAR, SECURE) == await moving.told_at(CLEAR)
                assert moving.expected_at(SECURE, CLEAR, SECURE) == await moving.told_at(SECURE)

                await moving.brokers_ask_at(brokers, SECURE)
                await brokers.create("by-both")
                await moving.gateways_listen_at(SECURE)
                await brokers.create("by-tls-alone")
                assert moving.expected_at(SECURE, SECURE) == await moving.told_at(SECURE)

                await moving.gateways_listen_at(CLEAR, SECURE)
                await moving.brokers_ask_at(brokers, CLEAR)
                await brokers.create("by-both-again")
                await moving.gateways_listen_at(CLEAR)
                await brokers.create("in-the-clear-again")
                assert moving.expected_at(CLEAR, CLEAR) == await moving.told_at(CLEAR)

            made = {"before", "by-both", "by-tls-alone", "by-both-again", "in-the-clear-again", WRITTEN}
            assert made <= (await cluster.topics(at=1)).keys()
