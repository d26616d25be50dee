"""All processes start in an environment that was made for other programs, and start anew in it, one after the other.

Proxies that do not exist, a trace of all gRPC does, files that are not there: `services/ENVIRONMENT.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.e2e.cluster import control_plane
from tests.e2e.test_hostile_environment import NOISE, PROXIES
from tests.shows.scene import SESSION_S, Scene, under_load
from tests.shows.table import Asked, Row


async def show(asked: Asked) -> Row:
    """The plane starts, writes, keeps its brokers, and does so again after each start."""
    with _environment({**PROXIES, **NOISE}):
        async with control_plane(
            asked.directory, session_timeout_ms=round(SESSION_S * 1000), with_gateways=True
        ) as cluster:
            return await under_load("hostile-environment", cluster, asked, _starts)


async def _starts(scene: Scene) -> None:
    cluster, plan = scene.cluster, scene.cluster.plan
    leader = await cluster.active() - 1
    few = (plan.quorum[leader], plan.controllers[leader], plan.gateways[leader], plan.heartbeat, plan.placer)
    for process in few if scene.asked.is_short else plan.processes:
        async with scene.strike(f"{process.name} is killed and starts anew"):
            await cluster.kill(process)
            await cluster.restart(process)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables are set for the length of the block, for all that is started in it."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
