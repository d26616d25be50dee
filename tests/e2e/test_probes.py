"""The answers of each service to a kubelet: startup, liveness and readiness, in the clear on a port of their own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import pytest
import pytest_asyncio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.plan import CLIENTS, PlanTls, Process, make_plan, secured
from deploy.local.ports import HOST, free_ports
from deploy.local.processes import Running
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.test_doors import RPCS
from tests.network.certificates import authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

SERVED: Final = {
    "quorum": ("Quorum", "RaftClient"),
    "controller": ("Controller",),
    "heartbeat": ("Heartbeat",),
    "placer": ("Placer",),
    "observer": ("Observer", "TraceService"),
    "gateway": (),
}
"""The services of gRPC that each process has at its other port."""
ALONE: Final = {"startup": "SERVING", "liveness": "SERVING"}


@dataclass(frozen=True, slots=True)
class Probed:
    """The processes of one voter of three, each with its port for probes."""

    running: Running
    alone: tuple[Process, ...]

    def port(self, process: Process) -> str:
        return process.settings["health.listeners"].partition("://")[2]

    async def told(self, process: Process, *services: str) -> dict[str, str]:
        """The status of each service name, or the status of the call if it fails."""
        found = {}
        async with grpc.aio.insecure_channel(self.port(process)) as channel:
            for service in services:
                check = HealthStub(channel).Check(
                    HealthCheckRequest(service=service), timeout=WITHIN_S, wait_for_ready=True
                )
                try:
                    found[service] = HealthCheckResponse.ServingStatus.Name((await check).status)
                except grpc.aio.AioRpcError as error:
                    found[service] = error.code().name
        return found


def pod_of(directory: Path) -> Probed:
    """Each speaks TLS at its listener; nothing is started."""
    issuer = authority(directory)
    plan = make_plan(directory / "plane", with_gateways=True)
    names = [*(each.name for each in plan.processes), CLIENTS]
    stores = {name: (issuer.issue(name, f"/O=cluster/CN={name}"), issuer.certificate) for name in names}
    plan = secured(plan, PlanTls(stores=stores))
    plan.directory.mkdir()
    alone = (plan.quorum[0], plan.controllers[0], plan.heartbeat, plan.placer, plan.observer, plan.gateways[0])
    for process, port in zip(alone[:-1], free_ports(len(alone) - 1), strict=True):
        process.settings["health.listeners"] = f"HEALTH://{HOST}:{port}"
        listener, _, address = process.settings["listeners"].partition("://")
        # As in a pod, which does not know its address; peers and controllers are reached by another.
        process.settings["listeners"] = f"{listener}://0.0.0.0:{address.rpartition(':')[2]}"
        if process.service in ("quorum", "controller"):
            process.settings["advertised.listeners"] = f"{listener}://{address}"
    return Probed(Running(plan), alone)


@pytest_asyncio.fixture
async def pod(tmp_path: Path) -> AsyncIterator[Probed]:
    made = pod_of(tmp_path)
    yield made
    await made.running.stop()


def ends(process: Process, address: str) -> dict[str, str]:
    """How every RPC of a process ends in the clear at an address, and reflection with them."""
    found = {}
    with grpc.insecure_channel(address) as channel:
        for rpc in (each for each in RPCS if each.name.partition("/")[0] in SERVED[process.service]):
            found[rpc.name] = str(rpc.end(channel))
        for version in ("v1", "v1alpha"):
            name = f"grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
            ask = channel.stream_stream(f"/{name}")
            try:
                found[name] = str(list(ask(iter([b""]), timeout=WITHIN_S)))
            except grpc.RpcError as error:
                found[name] = error.code().name  # type: ignore[attr-defined]  # of a call it has one
    return found


async def test_a_process_alone_has_started_and_lives_and_is_ready_while_what_it_needs_is_there(
    pod: Probed,
) -> None:
    """One voter of three elects nobody: a probe that asked for more than the process would have it ended for ever."""
    plan = pod.running.plan
    await pod.running.format(plan.quorum[0])
    for process in pod.alone:
        await pod.running.spawn(process)
    told = {process.name: await pod.told(process, *ALONE) for process in pod.alone}
    ready = {process.service: await pod.told(process, "readiness") for process in pod.alone}
    others = {process.name: await asyncio.to_thread(ends, process, pod.port(process)) for process in pod.alone}
    unknown = await pod.told(plan.placer, "mallory")

    assert {process.name: ALONE for process in pod.alone} == told
    waiting = ["quorum", "controller", "heartbeat", "observer"]
    assert {service: {"readiness": "NOT_SERVING"} for service in waiting} == {each: ready[each] for each in waiting}
    assert {"UNIMPLEMENTED"} == {end for each in others.values() for end in each.values()}, others
    assert {"mallory": "NOT_FOUND"} == unknown

    await pod.running.format(plan.quorum[1])
    await pod.running.spawn(plan.quorum[1])  # a majority

    async def late() -> dict[str, dict[str, str]]:
        found = {process.name: await pod.told(process, *ALONE, "readiness") for process in pod.alone}
        return {name: each for name, each in found.items() if set(each.values()) != {"SERVING"}}

    await eventually(late, lambda behind: not behind)

    await pod.running.kill(plan.quorum[1], signal.SIGKILL)  # no majority: calls should be sent nowhere here

    async def sent() -> dict[str, str]:
        return {process.service: (await pod.told(process, "readiness"))["readiness"] for process in pod.alone}

    await eventually(sent, lambda each: each == {**dict.fromkeys(each, "NOT_SERVING"), "placer": "SERVING"})

    assert {process.name: ALONE for process in pod.alone} == {
        process.name: await pod.told(process, *ALONE) for process in pod.alone
    }

    await pod.running.spawn(plan.quorum[1])
    await eventually(late, lambda behind: not behind)
