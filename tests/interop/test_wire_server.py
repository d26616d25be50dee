"""Kafka's own tools speak to our server: they negotiate, log in, and print what a handler with fixed values answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from deploy.kafka.node import tool
from kraft import Message
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.metadata import MetadataRequest, MetadataResponse
from quorate.network.listening import ConnectedClient, Listening
from quorate.network.server import KafkaServer, serving
from quorate.nouns import METADATA_TOPIC, Principal
from quorate.protocol import Request, ServerSettings
from tests.interop.kafka.release import absent
from tests.network.test_network import contexts
from tests.protocol.pair import SERVED, describe
from tests.protocol.test_sasl import MECHANISMS, PASSWORD, USER

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=absent() or "")]

CLUSTER_ID: Final = "n3Vb0q7mSlW8cYkXe2RtZw"
NODE_ID: Final = 7
JAAS: Final = "org.apache.kafka.common.security"
QUOTED: Final = f'username="{USER}" password="{PASSWORD}"'

Properties = Mapping[str, object]


class Fixed:
    """One controller that leads a quorum of one; it remembers who asked what."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[tuple[str, int, Principal]] = []
        self.software: set[tuple[str, str]] = set()

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        self.asked.append((request.api.name, request.header.request_api_version, request.principal))
        self.software.add(client.software)
        match request.message:
            case DescribeClusterRequest(endpoint_type=endpoint_type):
                node = DescribeClusterResponse.DescribeClusterBroker(NODE_ID, "localhost", self.port)
                return DescribeClusterResponse(
                    endpoint_type=endpoint_type, cluster_id=CLUSTER_ID, controller_id=NODE_ID, brokers=(node,)
                )
            case DescribeQuorumRequest():
                return self._quorum()
            case MetadataRequest():
                broker = MetadataResponse.MetadataResponseBroker(NODE_ID, "localhost", self.port)
                return MetadataResponse(cluster_id=CLUSTER_ID, controller_id=NODE_ID, brokers=(broker,))
        raise AssertionError(f"no tool of this test asks for {request.api.name}")

    def _quorum(self) -> Message:
        topic = DescribeQuorumResponse.TopicData
        voter = DescribeQuorumResponse.ReplicaState(replica_id=NODE_ID, log_end_offset=42)
        partition = topic.PartitionData(leader_id=NODE_ID, leader_epoch=3, high_watermark=41, current_voters=(voter,))
        listener = DescribeQuorumResponse.Node.Listener("CONTROLLER", "localhost", self.port)
        return DescribeQuorumResponse(
            topics=(topic(topic_name=METADATA_TOPIC, partitions=(partition,)),),
            nodes=(DescribeQuorumResponse.Node(NODE_ID, (listener,)),),
        )


@asynccontextmanager
async def fixed(**more: object) -> AsyncIterator[tuple[Fixed, KafkaServer]]:
    handler = Fixed()
    async with serving(
        Listening(handle=handler, served=SERVED, describe_versions=describe, **more), "127.0.0.1"
    ) as server:
        handler.port = server.port
        yield handler, server


async def says(main: str, *arguments: object) -> str:
    """What a tool prints; it runs beside the server."""

    return await asyncio.to_thread(tool, main, *arguments)


def config(directory: Path, properties: Properties) -> Path:
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


async def test_the_quorum_tool_describes_it() -> None:
    async with fixed() as (handler, server):
        status = await says(
            "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-controller", f"localhost:{server.port}",
            "describe", "--status",
        )  # fmt: skip

    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    lines = {name: value.strip() for name, value in lines.items()}
    assert (CLUSTER_ID, "7", "3", "41") == tuple(
        lines[name] for name in ("ClusterId", "LeaderId", "LeaderEpoch", "HighWatermark")
    )
    assert handler.software == {("apache-kafka-java", "4.3.1")}
    assert {"DescribeCluster", "DescribeQuorum"} == {name for name, _, _ in handler.asked}


async def test_the_cluster_tool_tells_its_id() -> None:
    async with fixed() as (_, server):
        told = await says(
            "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-controller", f"localhost:{server.port}"
        )

    assert told.strip() == f"Cluster ID: {CLUSTER_ID}"


async def test_the_versions_tool_lists_every_api_and_none_is_unknown_to_it() -> None:
    async with fixed() as (_, server):
        listed = await says(
            "org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", f"localhost:{server.port}"
        )

    assert f"localhost:{server.port} (id: {NODE_ID} rack: null isFenced: false)" in listed
    for name, usable in (("DescribeQuorum(55): 0 to 2", 2), ("Fetch(1): 4 to 18", 18), ("CreateTopics(19): 2 to 7", 7)):
        assert f"{name} [usable: {usable}]" in listed


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_the_tool_logs_in(mechanism: str, tmp_path: Path) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    client = config(
        tmp_path,
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{JAAS}.{module} required {escaped(QUOTED)};",
        },
    )
    async with fixed(mechanisms=MECHANISMS, settings=ServerSettings(reauth_ms_max=60_000)) as (handler, server):
        told = await says(
            "org.apache.kafka.tools.ClusterTool", "cluster-id",
            "--bootstrap-controller", f"localhost:{server.port}", "--config", client,
        )  # fmt: skip

    assert CLUSTER_ID in told
    assert {Principal("User", USER)} == {principal for _, _, principal in handler.asked}


async def test_the_tool_speaks_tls(tmp_path: Path) -> None:
    server_side, _ = contexts(tmp_path)
    client = config(
        tmp_path,
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": tmp_path / "certificate.pem",
        },
    )
    async with fixed(tls=lambda: server_side) as (_, server):
        told = await says(
            "org.apache.kafka.tools.ClusterTool", "cluster-id",
            "--bootstrap-controller", f"localhost:{server.port}", "--config", client,
        )  # fmt: skip

    assert CLUSTER_ID in told


def escaped(text: str) -> str:
    """As a properties file wants what is not Latin-1."""
    return "".join(letter if letter.isascii() else f"\\u{ord(letter):04x}" for letter in text)
