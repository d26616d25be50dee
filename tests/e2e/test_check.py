"""What `helm test` runs, against a control plane that speaks TLS."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls
from deploy.local.processes import ROOT
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from quorate.runtime.event_loop.loop import ExitCode
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster, control_plane
from tests.e2e.test_first_start import ended, says
from tests.network.certificates import Authority, authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

BROKER = 2_147_483_600


@dataclass(frozen=True, slots=True)
class Plane:
    cluster: Cluster
    issuer: Authority

    async def begin(self, **settings: str) -> asyncio.subprocess.Process:
        """The program, under way."""
        plan = self.cluster.plan
        given = {
            "controller.endpoint": plan.controllers[0].address,
            "heartbeat.endpoint": plan.heartbeat.address,
            "observer.endpoint": plan.observer.address,
            "cluster.id": plan.cluster_id,
            "check.broker.id": str(BROKER),
            "ssl.keystore.location": str(self.issuer.directory / f"{CLIENTS}.pem"),
            "ssl.truststore.location": str(self.issuer.certificate),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.observer.check"),
            *(part for key, value in given.items() for part in ("--set", f"{key}={value}")),
            cwd=ROOT,
            env={**os.environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": plan.traces},
            stdout=PIPE,
            stderr=STDOUT,
        )

    async def check(self, **settings: str) -> tuple[ExitCode, str]:
        """The program to its end: the exit code, and what it said."""
        return await ended(await self.begin(**settings))

    async def is_clean(self) -> None:
        """Waits until neither a topic nor the broker of a check is left."""
        await eventually(self.cluster.topics, lambda found: not any(name.startswith("check-") for name in found))
        await eventually(self.brokers, lambda found: BROKER not in found)

    async def brokers(self) -> set[int]:
        """Who is registered, as the observer sees it."""
        request = DescribeClusterRequest(include_fenced_brokers=True)
        answer = (await call_with_retries(self.cluster.observer_stub.DescribeCluster, request)).response
        return {broker.broker_id for broker in answer.brokers}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    issuer = authority(tmp_path_factory.mktemp("certificates"))

    def certificates(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), CLIENTS]
        stores = {name: issuer.issue(name, f"/O=cluster/CN={name}") for name in names}
        return PlanTls(stores={name: (store, issuer.certificate) for name, store in stores.items()})

    async with control_plane(tmp_path_factory.mktemp("plane"), quorum_settings=PATIENT, tls=certificates) as cluster:
        yield Plane(cluster, issuer)


async def test_it_passes_through_all_doors_and_takes_away_what_it_made(plane: Plane) -> None:
    code, said = await plane.check()

    assert ExitCode.STOPPED == code, said
    assert "all is well" in said
    for step in (
        "register broker",
        "unfence",
        "create topic",
        "see the topic on 1",
        "find trace",
        "miss the topic on 1",
    ):
        assert f'step="{step}' in said, step
    await plane.is_clean()


async def test_what_is_not_seen_fails_it_and_is_taken_away(plane: Plane) -> None:
    """A placer has nothing to tell of topics."""
    child = await plane.begin(observer_endpoint=plane.cluster.plan.placer.address)
    try:
        await says(child, 'step="see the topic')
        child.terminate()
    finally:
        code, said = await ended(child)

    assert ExitCode.FAILED == code, said
    assert "could not see the topic on 1 observers: was asked to stop" in said
    await plane.is_clean()


async def test_what_takes_too_long_fails_it(plane: Plane) -> None:
    code, said = await plane.check(check_timeout_ms="1")

    assert ExitCode.FAILED == code, said
    assert ": 1 ms are over" in said
    await plane.is_clean()


async def test_another_cluster_is_refused_by_the_controller(plane: Plane) -> None:
    code, said = await plane.check(cluster_id="another")

    assert ExitCode.FAILED == code, said
    assert f"could not register broker {BROKER}" in said
    assert "INCONSISTENT_CLUSTER_ID" in said


async def test_tls_takes_files(plane: Plane) -> None:
    code, said = await plane.check(ssl_keystore_location=str(plane.issuer.directory / "nothing.pem"))

    assert ExitCode.MISCONFIGURED == code, said
    assert "nothing.pem" in said
