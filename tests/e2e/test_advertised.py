"""Where a controller tells others to reach it: what stands in the log, whatever it listens on."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

Address = tuple[str, int]


async def addresses(cluster: Cluster) -> dict[NodeId, Address]:
    """By the registrations in the log."""
    answer = await call_with_retries(
        cluster.controller_stub(1).DescribeCluster, DescribeClusterRequest(endpoint_type=2)
    )
    return {node.broker_id: (node.host, node.port) for node in answer.response.brokers}


async def started_with(cluster: Cluster, node_id: NodeId, settings: Mapping[str, str], expected: Address) -> None:
    """Its controller starts anew with these settings, and is in the log where it is expected."""
    process = cluster.controller(node_id)
    await cluster.kill(process)
    process.settings.update(settings)
    await cluster.restart(process)

    await eventually(lambda: addresses(cluster), lambda known: known[node_id] == expected)


async def test_what_is_advertised_stands_in_the_log_and_calls_are_passed_on_to_it(cluster: Cluster) -> None:
    leader = await cluster.active()
    process = cluster.controller(leader)
    await started_with(
        cluster,
        leader,
        {
            "listeners": f"CONTROLLER://0.0.0.0:{process.port}",
            "advertised.listeners": f"CONTROLLER://localhost:{process.port}",
        },
        ("localhost", process.port),
    )
    others = [node_id for node_id in (1, 2, 3) if node_id != await cluster.active()]

    for door in others:
        await call_with_retries(cluster.controller_stub(door).DescribeCluster, DescribeClusterRequest(endpoint_type=1))


async def test_who_listens_on_every_interface_is_reached_by_the_hosts_name(cluster: Cluster) -> None:
    """ListenerInfo.withWildcardHostnamesResolved in Kafka: 0.0.0.0 would be every reader's own machine."""
    process = cluster.controller(3)

    await started_with(
        cluster, 3, {"listeners": f"CONTROLLER://0.0.0.0:{process.port}"}, (socket.getfqdn(), process.port)
    )
