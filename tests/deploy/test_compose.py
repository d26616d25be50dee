"""The Compose file: what it says of each service is run here as a process on loopback."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.ports import HOST, free_ports
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.voters import description

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy" / "compose.yaml"
VOLUME = "/var/lib/quorate"
FORMAT = "format"
END_S = 120

pytestmark = pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="needs PyYAML")


@pytest.fixture
def compose() -> Any:
    import yaml

    return yaml.safe_load(FILE.read_text())


def on_loopback(compose: Any, directory: Path) -> dict[str, dict[str, str]]:
    """The environment of each service, with free ports of loopback for its addresses, a directory for the volume."""
    text = {name: service.get("environment", {}) for name, service in compose["services"].items()}
    hosts = "|".join([*compose["services"], "localhost", re.escape("0.0.0.0")])
    ports = sorted(set(re.findall(r":(\d{4})\b", str(text))))
    to = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))

    def moved(value: str) -> str:
        value = re.sub(rf"\b({hosts}):(\d+)", lambda found: f"{HOST}:{to[found[2]]}", value)
        return value.replace(VOLUME, str(directory))

    return {name: {key: moved(value) for key, value in environment.items()} for name, environment in text.items()}


def name_of(image: str) -> str:
    """quorum for quorate/quorum:0.1.0."""
    return image.partition("/")[2].partition(":")[0]


def module(service: Mapping[str, Any]) -> str:
    """What an image's entry point runs, unless the service has another one."""
    entrypoint = service.get("entrypoint") or ["python", "-m", f"services.{name_of(service['image'])}"]
    assert entrypoint[:2] == ["python", "-m"]
    return str(entrypoint[2])


def health_address(environment: Mapping[str, str]) -> str:
    """Where a service answers probes."""
    return (environment.get("QUORATE_HEALTH_LISTENERS") or environment["QUORATE_LISTENERS"]).partition("://")[2]


async def test_what_it_starts_becomes_one_control_plane(compose: Any, tmp_path: Path) -> None:
    environments = on_loopback(compose, tmp_path)
    services = compose["services"]

    async def spawn(name: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", module(services[name]), env={**os.environ, **environments[name]}, cwd=ROOT
        )

    async with AsyncExitStack() as stack:
        for _ in range(2):  # the second finds it formatted
            done = await spawn(FORMAT)
            assert 0 == await asyncio.wait_for(done.wait(), END_S)
        for name in services.keys() - {FORMAT}:
            stack.push_async_callback(end, await spawn(name))
        for name in services.keys() - {FORMAT}:
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(health_address(environments[name])))

            async def serves(channel: grpc.aio.Channel = channel) -> bool:
                answer = await call_with_retries(HealthStub(channel).Check, HealthCheckRequest())
                return bool(answer.response.status == HealthCheckResponse.SERVING)

            await eventually(serves)
        quorum = await stack.enter_async_context(
            grpc.aio.insecure_channel(environments["quorum"]["QUORATE_LISTENERS"].partition("://")[2])
        )
        found = (await call_with_retries(QuorumStub(quorum).FindQuorum, FindQuorumRequest())).response

        described = await call_with_retries(QuorumStub(quorum).DescribeQuorum, description())

        assert 1 == found.leader_id
        assert sorted(environments["quorum"]["QUORATE_ADVERTISED_LISTENERS"].split(",")) == sorted(
            f"{at.name}://{at.host}:{at.port}" for node in described.response.nodes for at in node.listeners
        )


async def end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    await asyncio.wait_for(process.wait(), END_S)


def test_writes_nowhere_but_to_its_volume_and_is_heard_on_loopback_alone(compose: Any) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert ["ALL"] == service["cap_drop"], name
        assert all(volume.startswith(f"log:{VOLUME}") for volume in service.get("volumes", [])), name
        assert all(port.startswith(f"{HOST}:") for port in service.get("ports", [])), name


def test_builds_the_image_of_every_service_that_it_has(compose: Any) -> None:
    """The pipeline runs by schedule, or when it is called; the broker is none of a control plane."""
    services = compose["services"].values()
    built = {service["image"]: service["build"] for service in services if "build" in service}

    assert {service["image"] for service in services} == set(built)
    assert {file.parent.name for file in (ROOT / "services").glob("*/__main__.py")} - {"pipeline", "broker"} == {
        *map(name_of, built)
    }
    for image, build in built.items():
        assert {"context": "..", "dockerfile": "deploy/Dockerfile", "args": {"SERVICE": name_of(image)}} == build
        assert (ROOT / build["dockerfile"]).exists()
