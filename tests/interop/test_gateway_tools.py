"""Kafka's own tools at our gateways; what a gateway lists is what a Kafka controller lists."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.kafka.node import Node, tool
from deploy.local.ports import free_ports
from kraft.api.api_versions import ApiVersionsResponse
from kraft.api.describe_cluster import DescribeClusterRequest
from quorate.network.client import connect
from quorate.wire.protobuf import json_form
from tests.e2e.cluster import Cluster, control_plane
from tests.interop.kafka.quorum import QUIET, SECURITY
from tests.interop.kafka.release import OPERATIONS_POM, absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(600),
]

TOOLS: Final = "org.apache.kafka.tools."
LOOPBACK: Final = "127.0.0.1"
AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    directory = tmp_path_factory.mktemp("plane")
    async with control_plane(
        directory, controller_settings=AUTHORIZED | QUIET, with_gateways=True, is_observed=False
    ) as cluster:
        yield cluster


async def says(plane: Cluster, main: str, *arguments: object) -> str:
    """What a tool prints; it runs beside the control plane."""
    where = ("--bootstrap-controller", plane.plan.bootstrap_controllers)
    return await asyncio.to_thread(tool, main, *where, *arguments)


async def test_the_quorum_tool_describes_it(plane: Cluster) -> None:
    leader_id = await plane.active()
    status = await says(plane, TOOLS + "MetadataQuorumCommand", "describe", "--status")
    lines = {name: value.strip() for name, value in (line.split(":", 1) for line in status.splitlines() if ":" in line)}
    voters = {each["id"]: each["endpoints"] for each in json.loads(lines["CurrentVoters"])}
    addresses = plane.plan.bootstrap_controllers.split(",")

    assert (plane.plan.cluster_id, str(leader_id)) == (lines["ClusterId"], lines["LeaderId"])
    assert {number: [f"CONTROLLER://{at}"] for number, at in enumerate(addresses, 1)} == voters

    replication = await says(plane, TOOLS + "MetadataQuorumCommand", "describe", "--replication")
    roles = {int(line.split()[0]): line.split()[-1] for line in replication.splitlines()[1:]}

    assert "Leader" == roles[leader_id]
    assert ["Follower", "Follower", "Leader"] == sorted(roles[node_id] for node_id in (1, 2, 3))


async def test_the_feature_tool_lowers_a_level_and_raises_it(plane: Cluster) -> None:
    feature = TOOLS + "FeatureCommand"
    before = levels(await says(plane, feature, "describe"))
    await says(plane, feature, "downgrade", "--feature", "streams.version=0")
    lowered = levels(await says(plane, feature, "describe"))
    await says(plane, feature, "upgrade", "--feature", "streams.version=1")
    raised = levels(await says(plane, feature, "describe"))

    assert ("1", "0", "1") == tuple(each["streams.version"] for each in (before, lowered, raised))
    assert before == raised == {**lowered, "streams.version": "1"}


def levels(told: str) -> dict[str, str]:
    """Each feature's finalized level, as the tool prints it."""
    return dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", told))


async def test_the_config_tool_changes_what_it_describes(plane: Cluster) -> None:
    of_all = ("--entity-type", "brokers", "--entity-default")
    config = "kafka.admin.ConfigCommand"
    await says(plane, config, "--alter", *of_all, "--add-config", "log.cleaner.threads=2")
    altered = await says(plane, config, "--describe", *of_all)
    await says(plane, config, "--alter", *of_all, "--delete-config", "log.cleaner.threads")
    deleted = await says(plane, config, "--describe", *of_all)

    assert "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in altered
    assert "log.cleaner.threads" not in deleted


async def test_the_acl_tool_adds_lists_and_removes(plane: Cluster) -> None:
    acls = TOOLS + "AclCommand"
    entry = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "secrets")
    await says(plane, acls, "--add", *entry)
    listed = await says(plane, acls, "--list", "--topic", "secrets")
    await says(plane, acls, "--remove", "--force", *entry)
    removed = await says(plane, acls, "--list", "--topic", "secrets")

    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "User:alice" not in removed


async def test_the_cluster_tool_has_its_id_and_the_gateways(plane: Cluster) -> None:
    where = ("--bootstrap-controller", plane.plan.bootstrap_controllers)
    told = await asyncio.to_thread(tool, TOOLS + "ClusterTool", "cluster-id", *where)
    listed = await asyncio.to_thread(tool, TOOLS + "ClusterTool", "list-endpoints", *where)
    rows = [line.split() for line in listed.splitlines()[1:]]

    assert f"Cluster ID: {plane.plan.cluster_id}" == told.strip()
    assert plane.plan.bootstrap_controllers.split(",") == [f"{row[1]}:{row[2]}" for row in sorted(rows)]


async def test_what_it_lists_and_refuses_is_what_a_controller_of_kafka_does(plane: Cluster, tmp_path: Path) -> None:
    """APIs, versions and supported features of 4.4.0; DescribeCluster in every version, for either endpoint type."""
    (port,) = free_ports(1)
    properties = {
        "process.roles": "controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{port}",
        "listeners": f"CONTROLLER://{LOOPBACK}:{port}",
        "log.dirs": tmp_path / "node" / "data",
    }
    with Node(tmp_path / "node", SECURITY | properties, pom=OPERATIONS_POM) as node:
        await asyncio.to_thread(node.format, plane.plan.cluster_id)
        await asyncio.to_thread(node.start().wait_ready)
        theirs = await seen(LOOPBACK, port)
    host, _, own = plane.plan.bootstrap_controllers.split(",")[0].rpartition(":")

    assert theirs == await seen(host, int(own))


async def seen(host: str, port: int) -> dict[str, object]:
    """What a listener says of itself."""
    async with await connect(host, port) as client:
        refused = [
            json_form(await client.ask(DescribeClusterRequest(endpoint_type=kind), version=version))
            for version, kind in ((0, 1), (1, 1), (2, 1), (2, 7))
        ]
        told: ApiVersionsResponse = client.node
    for each in refused:
        del each["errorMessage"]
    return {
        "apis": {each.api_key: (each.min_version, each.max_version) for each in told.api_keys},
        "features": {each.name: (each.min_version, each.max_version) for each in told.supported_features},
        "refused": refused,
    }
