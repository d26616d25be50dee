"""A stop that takes longer than `shutdown.graceful.timeout.ms`: what was waited for is a line in the log."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from deploy.local.ports import free_ports
from kraft.api.api_versions_pb2 import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.create_topics import CreateTopicsRequest
from kraft.service.controller_pb2_grpc import add_ControllerServicer_to_server
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.cli.formatting import FormatOptions
from quorate.cli.storage import format_node
from quorate.network.client import Disconnected, connect
from quorate.runtime.calls.server import Server
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.loop import ExitCode, ServiceLife
from quorate.runtime.process import ServiceProcess
from quorate.runtime.settings.config import load
from services.placer.config import PlacerConfig
from tests.services.across.test_starting import ALONE, ENVIRON
from tests.services.scripted import LOOPBACK, WITHIN_S, ScriptedController, listening

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
GRACEFUL_MS: Final = 300
GRACEFUL: Final = {"shutdown.graceful.timeout.ms": str(GRACEFUL_MS)}


class Controller(ScriptedController):
    """Its features are known; what it is asked for besides is never answered."""

    def __init__(self) -> None:
        super().__init__()
        self.before_answering = asyncio.Event().wait

    async def ApiVersions(self, request: ApiVersionsRequest, context: Any) -> ApiVersionsResponse:
        return ApiVersionsResponse()


class Placer(PlacerServicer):
    """Never answers."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[PlaceRequest] = asyncio.Queue()

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        self.asked.put_nowait(request)
        await asyncio.Event().wait()
        return PlaceResponse()


@asynccontextmanager
async def running(service: str, settings: dict[str, str]) -> AsyncIterator[Process]:
    """A service's process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"services.{service}"),
        *(f"--set={key}={value}" for key, value in settings.items()),
        env=ENVIRON,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def stopped(process: Process) -> tuple[int | None, list[str]]:
    """Its exit code, and its warnings from SIGTERM on."""
    process.terminate()
    _, told = await process.communicate()
    _, _, after = told.decode().partition("event=stopping")
    return process.returncode, [line for line in after.splitlines() if "level=warning" in line]


async def test_a_gateway_tells_which_requests_it_leaves_without_an_answer() -> None:
    controller, server = Controller(), Server()
    server.add("kraft.service.Controller", add_ControllerServicer_to_server, controller)
    server.multiplex()
    (port,) = free_ports(1)
    async with listening(server) as address:
        settings = {
            "node.id": "7",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
            **ALONE["gateway"],
            "controller.endpoint": address,
            **GRACEFUL,
        }
        async with running("gateway", settings) as process, _connected(port) as client:
            asking = asyncio.ensure_future(client.ask(CreateTopicsRequest()))
            await controller.calls.get()
            code, warnings = await stopped(process)
            with pytest.raises(Disconnected):
                await asking

    assert ExitCode.STOPPED == code
    assert 1 == len(warnings), warnings
    assert re.search(r"calls are cut.*waited_s=0\.3 calls=1 of=CreateTopics:1 setting=shutdown\.graceful", warnings[0])


async def test_a_leader_tells_which_voter_has_not_answered_its_resignation(tmp_path: Path) -> None:
    ports = dict(zip((1, 2), free_ports(2), strict=True))
    async with (
        running("quorum", _formatted(tmp_path, 1, ports)) as one,
        running("quorum", _formatted(tmp_path, 2, ports)) as two,
    ):
        nodes = {1: one, 2: two}
        leader = await _leader(ports[1])
        (other,) = nodes.keys() - {leader}
        nodes[other].send_signal(signal.SIGSTOP)  # it neither answers nor closes a connection
        code, warnings = await stopped(nodes[leader])

    assert ExitCode.STOPPED == code
    assert 1 == len(warnings), warnings
    assert re.search(rf"voters=\[?{other}\]? waited_s=0\.3 setting=shutdown\.graceful", warnings[0]), warnings


async def test_a_process_tells_which_calls_it_cuts_and_gives_them_the_time_that_is_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = {"node.id": "7", "listeners": f"PLAINTEXT://{LOOPBACK}:0", **GRACEFUL}
    config = load(PlacerConfig, [f"--set={key}={value}" for key, value in own.items()], {})
    life, servicer = ServiceLife(), Placer()
    process = ServiceProcess(life, "placer", config, transport_of(config))
    server = process.server(config)
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, servicer)
    serving = asyncio.create_task(process.serve(server))
    async with asyncio.timeout(WITHIN_S), open_channel(f"{LOOPBACK}:{server.ports[0]}") as channel:
        calls = [PlacerStub(channel).Place(PlaceRequest(), wait_for_ready=True) for _ in range(2)]
        for _ in calls:
            await servicer.asked.get()
        life.stop("the test asks it to")
        ended = await asyncio.gather(*calls, return_exceptions=True)
        await serving

    assert [True, True] == [isinstance(each, grpc.aio.AioRpcError) for each in ended]
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    (cut,) = [record for record in warnings if record.name == "quorate.runtime.calls.server"]
    assert {
        "waited_s": 0.3, "calls": 2, "of": "Place:2", "setting": "shutdown.graceful.timeout.ms"
    } == vars(cut)["quorate_fields"]  # fmt: skip


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[Any]:
    """A client of Kafka's wire, once somebody listens there."""
    while True:
        try:
            client = await connect(LOOPBACK, port)
            break
        except OSError:
            await asyncio.sleep(0.05)
    async with client:
        yield client


def _formatted(directory: Path, node_id: int, ports: dict[int, int]) -> dict[str, str]:
    """The settings of one of two voters, whose directory is formatted."""
    log_dir, config = directory / f"log-{node_id}", directory / f"{node_id}.properties"
    log_dir.mkdir()
    settings = {
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{ports[node_id]}",
        "controller.quorum.voters": ",".join(f"{each}@{LOOPBACK}:{port}" for each, port in ports.items()),
    }
    own = {"process.roles": "controller", "log.dirs": str(log_dir), "controller.listener.names": "PLAINTEXT"}
    config.write_text("".join(f"{key}={value}\n" for key, value in {**settings, **own}.items()))
    format_node(config, FormatOptions(cluster_id=CLUSTER_ID), output="text")
    return {**settings, "metadata.log.dir": str(log_dir), **GRACEFUL}


async def _leader(port: int) -> int:
    """Who leads, as the node at this port knows once something is committed."""
    async with open_channel(f"{LOOPBACK}:{port}") as channel:
        while True:
            found = await QuorumStub(channel).FindQuorum(FindQuorumRequest(), wait_for_ready=True)
            if found.high_watermark:
                return int(found.leader_id)
            await asyncio.sleep(0.05)
