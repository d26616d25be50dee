"""A voter of a quorum whose voters are in the log loses its disk, and joins again with another directory id (KIP-853).

In every second case nobody listens at the bootstrap servers of its first start: it has to learn of the quorum from the
leader, which still asks for the vote of the disk that is gone.
"""

from __future__ import annotations

from typing import Final

from deploy.local.ports import free_ports
from quorate.nouns import NodeId, uuid_text
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, control_plane
from tests.shows.scene import SESSION_S, Scene, under_load
from tests.shows.table import Asked, Row

WIPES: Final = 20
SHORT_WIPES: Final = 2
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
JOINS: Final = {node_id: {"controller.quorum.auto.join.enable": "true"} for node_id in VOTERS}


async def show(asked: Asked) -> Row:
    """Each is a voter again, without a word of an operator."""
    async with control_plane(
        asked.directory,
        session_timeout_ms=round(SESSION_S * 1000),
        with_gateways=True,
        dynamic=True,
        quorum_settings=JOINS,
    ) as cluster:
        return await under_load("wiped-voters", cluster, asked, _wipes)


async def _wipes(scene: Scene) -> None:
    for number in range(SHORT_WIPES if scene.asked.is_short else WIPES):
        node_id = scene.random.choice(VOTERS)
        is_lost = number % 2 == 1
        servers = "; nobody listens at its bootstrap servers" if is_lost else ""
        async with scene.strike(f"node {node_id} loses its disk{servers}"):
            await _wipe(scene.cluster, node_id, is_lost=is_lost)


async def _wipe(cluster: Cluster, node_id: NodeId, *, is_lost: bool) -> None:
    """Returns once the voters are as many as before, and the new disk is the node's only one."""
    node = cluster.quorum(node_id)
    servers = node.settings[BOOTSTRAP]
    await cluster.kill(node)
    await cluster.format_anew(node, joins=True)
    if is_lost:
        (port,) = free_ports(1)
        node.settings[BOOTSTRAP] = f"127.0.0.1:{port}"
    await cluster.restart(node)
    node.settings[BOOTSTRAP] = servers
    meta = read_meta_properties(cluster.plan.log_dir(node_id))
    assert meta is not None, node_id
    assert meta.directory_id is not None, meta
    directory_id = uuid_text(meta.directory_id)

    async def voters() -> list[tuple[NodeId, str]]:
        found = await cluster.find(await cluster.leader())
        return sorted((each.id, each.directory_id) for each in found.voters)

    seen = await eventually(voters, lambda seen: (node_id, directory_id) in seen and len(seen) == len(VOTERS))
    assert list(VOTERS) == [each for each, _ in seen], seen
