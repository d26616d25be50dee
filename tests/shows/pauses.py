"""A process of each kind stands still (SIGSTOP), one after the other, for half a second to half a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from deploy.local.plan import ClusterPlan, Process
from quorate.nouns import NodeId
from tests.e2e.cluster import control_plane, others
from tests.shows.scene import SESSION_S, Scene, under_load
from tests.shows.table import Asked, Row


async def show(asked: Asked) -> Row:
    """Writes go on after each pause, and nobody is fenced for the silence of another."""
    async with control_plane(
        asked.directory, session_timeout_ms=round(SESSION_S * 1000), with_gateways=True
    ) as cluster:
        return await under_load("pauses", cluster, asked, _all_kinds)


async def _all_kinds(scene: Scene) -> None:
    for kind, one_of in KINDS.items():
        for seconds in scene.asked.seconds():
            leader = await scene.cluster.active()
            process = one_of(scene.cluster.plan, leader, scene.random.choice(others(leader)))
            what = f"{kind} ({process.name}) stands still for {seconds:g} s"
            async with scene.strike(what), scene.cluster.stopped(process):
                await asyncio.sleep(seconds)


KINDS: Final[Mapping[str, Callable[[ClusterPlan, NodeId, NodeId], Process]]] = {
    "leader's quorum node": lambda plan, leader, other: plan.quorum[leader - 1],
    "follower's quorum node": lambda plan, leader, other: plan.quorum[other - 1],
    "active controller": lambda plan, leader, other: plan.controllers[leader - 1],
    "standby controller": lambda plan, leader, other: plan.controllers[other - 1],
    "leader's gateway": lambda plan, leader, other: plan.gateways[leader - 1],
    "follower's gateway": lambda plan, leader, other: plan.gateways[other - 1],
    "heartbeat service": lambda plan, leader, other: plan.heartbeat,
    "placer": lambda plan, leader, other: plan.placer,
    "observer": lambda plan, leader, other: plan.observer,
}
"""What stands still, by the plan, who leads, and another node."""
