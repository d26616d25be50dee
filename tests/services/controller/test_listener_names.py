"""A Kafka controller that votes has a listener of the name that our controller's has: it is said once."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.logging.logs import start_logs
from quorate.runtime.settings.named_endpoints import NamedVoter
from quorate.runtime.settings.setting_types import Endpoint
from services.controller.quorum_node import SAME_NAME, QuorumNode
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listeners import ListenerProtocols
from services.quorum.servicer import PeerServicer
from tests.services.nodes import Silent, driver_of, open_disk
from tests.services.scripted import listening

KAFKA = NamedVoter(3, Endpoint("three", 9093), "CONTROLLER")


@pytest.mark.parametrize(("own", "warnings"), [("CONTROLLER", 1), ("ADMIN", 0)])
async def test_a_name_that_a_kafka_voters_listener_has_is_warned_of_once(
    tmp_path: Path, restored_logs: None, own: str, warnings: int
) -> None:
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": "json"}, stream)
    driver = driver_of(open_disk(tmp_path, voters=3))
    driver.start(Silent(), pytest.fail)  # type: ignore[arg-type]  # what of Peers is used here
    endpoints = NodeEndpoints([KAFKA], (), driver.core.log.voters, ListenerProtocols({"CONTROLLER": "PLAINTEXT"}))
    server = Server()
    server.add(
        "kraft.service.Quorum",
        add_QuorumServicer_to_server,
        PeerServicer(driver, endpoints, cluster_id="c", node_id=1),
    )
    async with listening(server) as address, open_channel(address) as channel:
        node = QuorumNode(channel, [own])
        assert {1, 2, 3} == (await node.quorum()).voters
        assert {1, 2, 3} == (await node.last_known()).voters
    driver.stop()

    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    said = [(each["listener"], each["voters"]) for each in told if each["event"] == SAME_NAME]
    assert [("CONTROLLER", "3")] * warnings == said
