"""The leader stands still with its controller and its gateway, as a frozen container; connections stay open."""

from __future__ import annotations

import asyncio

from tests.e2e.cluster import control_plane
from tests.shows.scene import SESSION_S, Scene, under_load
from tests.shows.table import Asked, Row


async def show(asked: Asked) -> Row:
    """Another node leads, and writes go on at the doors of the others."""
    async with control_plane(
        asked.directory, session_timeout_ms=round(SESSION_S * 1000), with_gateways=True
    ) as cluster:
        return await under_load("frozen-leader", cluster, asked, _freezes)


async def _freezes(scene: Scene) -> None:
    cluster = scene.cluster
    for seconds in scene.asked.seconds():
        leader = await cluster.active()
        all_of_it = cluster.quorum(leader), cluster.controller(leader), cluster.plan.gateways[leader - 1]
        what = f"node {leader}, which leads, stands still for {seconds:g} s"
        async with scene.strike(what), cluster.stopped(*all_of_it):
            await asyncio.sleep(seconds)
