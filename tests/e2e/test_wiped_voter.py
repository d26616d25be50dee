"""A voter of a dynamic quorum loses its disk: with another directory id it has no vote, and its old key is dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from quorate.nouns import NodeId, uuid_text
from quorate.raft.roles import Leader
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, control_plane, others
from tests.e2e.writer import Writer, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ELECTIONS_S = 5.0
"""Time for some, if there could be one: the timeout is 1 s, and at most doubled."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with control_plane(tmp_path_factory.mktemp("cluster"), dynamic=True) as running:
        yield running


async def test_a_wiped_voter_follows_and_helps_nobody_to_lead(cluster: Cluster) -> None:
    """Two of three voters are down, one of them in disguise: the third must not go on, and loses nothing."""
    writer = Writer(cluster)
    leader = await cluster.active()
    wiped, last = others(leader)
    victim = cluster.quorum(wiped)
    async with writing(writer, "dynamic"):
        await cluster.kill(victim)
        await cluster.format_anew(victim, joins=True)
        await cluster.restart(victim)
        meta = read_meta_properties(cluster.plan.log_dir(wiped))

        assert meta is not None
        assert meta.directory_id is not None

        observer = (wiped, uuid_text(meta.directory_id))
        await eventually(lambda: observers(cluster, leader), lambda seen: observer in seen)
        voters = {voter.id: voter.directory_id for voter in (await cluster.find(last)).voters}

        assert cluster.plan.directory_ids == voters

        await cluster.kill(cluster.quorum(leader))
        before = len(writer.acknowledged)
        await asyncio.sleep(ELECTIONS_S)

        # One call a door was under way, and may have been answered before the leader died.
        assert len(writer.acknowledged) <= before + len(VOTERS)
        assert Leader.__name__ not in {(await cluster.find(node_id)).role for node_id in (wiped, last)}

        await cluster.restart(cluster.quorum(leader))
        await writer.goes_on()
    told = await cluster.topics(at=leader)

    assert set() == set(writer.acknowledged) - told.keys()
    assert [] == writer.refused + writer.stale


async def observers(cluster: Cluster, door: NodeId) -> set[tuple[NodeId, str]]:
    """Whom the leader sees fetch that has no vote: id and directory id."""
    described = await cluster.describe_quorum(door)
    return {(each.replica_id, each.replica_directory_id) for each in described.observers}
