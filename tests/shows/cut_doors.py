"""Brokers and clients reach no door of the nodes, or no answer reaches them, while the nodes hear each other.

Each node has a network namespace, and so have the heartbeat service, the placer and the observer together: what is cut
is the cable of the host where the brokers and the writers are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from typing import Final

from deploy.local.plan import make_plan
from tests.e2e.cluster import VOTERS, Cluster
from tests.e2e.network import CLIENT, HOW_TO_GET, Network, is_possible, network
from tests.shows.scene import SESSION_S, Scene, under_load
from tests.shows.table import Asked, Row

SHARED: Final = 4
"""The host of the heartbeat service, the placer and the observer."""
NAME: Final = "cut-doors"


async def show(asked: Asked) -> Row:
    """Nothing is heard of anybody for a while: nobody is fenced, and what was acknowledged is there."""
    if not is_possible():
        return Row(show=NAME, wrong=[f"not shown: {HOW_TO_GET}"])
    with network((*VOTERS, SHARED)) as net:
        async with _plane(asked, net) as cluster:
            return await under_load(NAME, cluster, asked, lambda scene: _cuts(scene, net))


@asynccontextmanager
async def _plane(asked: Asked, net: Network) -> AsyncIterator[Cluster]:
    """All brokers come to the gateways: others, which are heard meanwhile, would make those a rack that is silent."""
    plan = make_plan(
        asked.directory,
        session_timeout_ms=round(SESSION_S * 1000),
        home=net.place(SHARED),
        nodes_at={node_id: net.place(node_id) for node_id in VOTERS},
        with_gateways=True,
    )
    cluster = Cluster(replace(plan, brokers=()))
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


async def _cuts(scene: Scene, net: Network) -> None:
    everywhere: Iterable[int] = (*VOTERS, SHARED)
    for seconds in scene.asked.seconds():
        cuts: dict[str, AbstractContextManager[None]] = {
            "the doors of all nodes are cut": net.parted([CLIENT], VOTERS),
            "the doors of all nodes and of the heartbeat service are cut": net.parted([CLIENT], everywhere),
            "what is sent to the nodes is lost, not what they send": net.cut(from_=[CLIENT], to=VOTERS),
            "what the nodes send is lost, not what is sent to them": net.cut(from_=VOTERS, to=[CLIENT]),
            "the heartbeat service and the nodes are cut from each other": net.parted([SHARED], VOTERS),
        }
        for what, cut in cuts.items():
            async with scene.strike(f"{what} for {seconds:g} s"):
                with cut:
                    await asyncio.sleep(seconds)
