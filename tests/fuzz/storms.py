"""`python -m tests.fuzz.storms`: attacks on each service by TLS, while a probe asks for its health.

For each service and attack it prints how often the attack was done, the longest wait of the probe, and the memory of
the process at its highest. It fails if the probe has waited longer than a second, a process has ended, or has more than
its limit in the Helm chart.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process, make_plan, secured
from deploy.local.ports import HOST, free_ports
from deploy.local.processes import Running
from tests.fuzz.attacks import ATTACKS, Door, attack_alone
from tests.network.certificates import Authority, authority

PATHS: Final = {
    "quorum": "/kraft.service.Quorum/FindQuorum",
    "controller": "/kraft.service.Controller/CreateTopics",
    "heartbeat": "/kraft.service.Heartbeat/BrokerHeartbeat",
    "placer": "/kraft.service.Placer/Place",
    "observer": "/kraft.service.Observer/DescribeCluster",
    "gateway": "",
}
MIB_MAX: Final = {
    "quorum": 1_024,
    "controller": 2_048,
    "heartbeat": 512,
    "placer": 512,
    "observer": 2_048,
    "gateway": 512,
}
"""The limits of the chart's values."""
HEALTH_S_MAX: Final = 1.0
PROBE_S: Final = 0.05
PROBE_DEADLINE_S: Final = 30
CHILD: Final = multiprocessing.get_context("spawn")


def plan_of(directory: Path) -> tuple[ClusterPlan, Authority]:
    """One of each service, by TLS, with a port for probes."""
    issuer = authority(directory)
    plan = make_plan(directory / "plane", voters=1, with_gateways=True)
    names = [*(each.name for each in plan.processes), CLIENTS]
    stores = {name: (issuer.issue(name, f"/CN={name}"), issuer.certificate) for name in names}
    plan = secured(plan, PlanTls(stores=stores))
    gateway = plan.gateways[0]
    own = {"listener.security.protocol.map": "CONTROLLER:SSL", "ssl.keystore.location": str(stores[gateway.name][0])}
    gateway.settings.update({**own, "ssl.truststore.location": str(issuer.certificate), "ssl.client.auth": "required"})
    for process in plan.processes:
        if process.service != "gateway":
            (port,) = free_ports(1)
            process.settings["health.listeners"] = f"HEALTH://{HOST}:{port}"
    return plan, issuer


@asynccontextmanager
async def running(plan: ClusterPlan) -> AsyncIterator[Running]:
    """Its processes, ready."""
    started = Running(plan)
    try:
        await started.start()
        yield started
    finally:
        await started.stop()


async def worst_wait_s(process: Process, attacking: asyncio.Future[int]) -> float:
    """The longest that a probe has waited for SERVING, asked again and again until the attack is over."""
    worst = 0.0
    address = process.settings["health.listeners"].partition("://")[2]
    async with grpc.aio.insecure_channel(address) as channel:
        health = HealthStub(channel)
        while not attacking.done():
            begun = time.monotonic()
            answer = await health.Check(HealthCheckRequest(service="liveness"), timeout=PROBE_DEADLINE_S)
            worst = max(worst, time.monotonic() - begun)
            assert answer.status == HealthCheckResponse.SERVING, answer
            await asyncio.sleep(PROBE_S)
    return worst


def highest_mib(pid: int) -> int:
    """The most memory that a process has had since it began."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10


def door_of(process: Process, issuer: Authority) -> Door:
    """Where its callers come in."""
    return Door(
        host=HOST,
        port=int(process.settings["listeners"].rpartition(":")[2]),
        keystore=issuer.issue("attacker", "/CN=attacker"),
        truststore=issuer.certificate,
        path=PATHS[process.service],
        speaks_kafka=process.service == "gateway",
    )


async def main(asked: argparse.Namespace) -> int:
    """Prints a row for each service and attack; how many have failed."""
    faults = 0
    columns = ("service", "attack", "done to its end", "health's longest wait", "memory, highest", "")
    print(f"| {' | '.join(columns)} |\n|---|---|--:|--:|--:|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="quorate-storms-") as directory, ProcessPoolExecutor(1, CHILD) as others:
        plan, issuer = plan_of(Path(directory))
        async with running(plan) as started:
            for process in plan.processes:
                if asked.only not in process.service:
                    continue
                door, pid = door_of(process, issuer), started.pid(process)
                for name in ATTACKS:
                    if asked.attack not in name or (door.speaks_kafka and name == "pings"):
                        continue
                    attacking = asyncio.get_running_loop().run_in_executor(
                        others, attack_alone, door, name, asked.seconds
                    )
                    wait_s = await worst_wait_s(process, attacking)
                    is_up = started.is_up(process)
                    mib = highest_mib(pid) if is_up else 0
                    is_fault = wait_s > HEALTH_S_MAX or mib > MIB_MAX[process.service] or not is_up
                    faults += is_fault
                    verdict = (
                        "ended"
                        if not is_up
                        else "**too long**"
                        if wait_s > HEALTH_S_MAX
                        else "too large"
                        if is_fault
                        else ""
                    )
                    row = f"| {process.service} | {name} | {await attacking:,} | {wait_s * 1000:.0f} ms | {mib} MiB"
                    print(f"{row} | {verdict} |", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.storms", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each attack")
    parser.add_argument("--only", default="", help="services whose name has this")
    parser.add_argument("--attack", default="", help="attacks whose name has this")
    sys.exit(asyncio.run(main(parser.parse_args())))
