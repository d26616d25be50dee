"""Nodes whose volumes come by themselves: each is formatted before its first start, and there is one quorum."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deploy.local.plan import ClusterPlan
from deploy.local.processes import ROOT
from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.event_loop.loop import ExitCode
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.starting import content
from tests.e2e.voters import Nodes, planned

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

FIRST = 1
ALL = (1, 2, 3)
WAITS = "waits for nodes"


class Pods(Nodes):
    """Nodes as a StatefulSet has them: an init container formats the volume, and then the node starts."""

    def __init__(self, plan: ClusterPlan) -> None:
        super().__init__(plan)
        self._begun: list[asyncio.subprocess.Process] = []

    def volume(self, node_id: int) -> Path:
        return self.plan.log_dir(node_id)

    async def begin(self, node_id: int, *, cluster_id: str | None = None) -> asyncio.subprocess.Process:
        """The init container, under way."""
        config = self.plan.directory / f"first-start-{node_id}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self[node_id].settings.items()))
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.quorum.first_start", "--config", str(config)),
            cwd=ROOT,
            env={**os.environ, "QUORATE_CLUSTER_ID": cluster_id or self.plan.cluster_id},
            stdout=PIPE,
            stderr=STDOUT,
        )
        self._begun.append(child)
        return child

    async def init(self, node_id: int, *, cluster_id: str | None = None) -> tuple[ExitCode, str]:
        """The init container to its end: the exit code, and what it said."""
        return await ended(await self.begin(node_id, cluster_id=cluster_id))

    async def format(self, node_id: int) -> None:
        code, said = await self.init(node_id)
        assert ExitCode.STOPPED == code, said

    async def stop(self) -> None:
        for child in self._begun:
            if child.returncode is None:
                child.kill()
                await child.wait()
        await super().stop()

    async def start_all(self, *node_ids: int) -> None:
        """Pods that start together."""
        async with asyncio.TaskGroup() as tasks:
            for node_id in node_ids:
                tasks.create_task(self.start(node_id))

    async def vote(self, *node_ids: int) -> None:
        """Waits until these are the voters, as far as each of them knows."""
        for node_id in node_ids:
            await eventually(lambda at=node_id: self.voters(at), lambda found: sorted(found) == list(node_ids))  # type: ignore[misc]


async def ended(child: asyncio.subprocess.Process) -> tuple[ExitCode, str]:
    """Waits for the end of a process; its exit code, and what it said."""
    try:
        async with asyncio.timeout(WITHIN_S):
            said, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return ExitCode(child.returncode or 0), said.decode()


async def says(child: asyncio.subprocess.Process, what: str) -> str:
    """The first line of a process that says this."""
    assert child.stdout is not None
    async with asyncio.timeout(WITHIN_S):
        while what not in (line := (await child.stdout.readline()).decode()):
            assert line, f"it has ended and has not said: {what}"
    return line


@pytest_asyncio.fixture
async def pods(tmp_path: Path) -> AsyncIterator[Pods]:
    made = Pods(planned(tmp_path, count=len(ALL)).plan)
    for node in made.plan.quorum:
        node.settings["controller.quorum.auto.join.enable"] = "true"
    yield made
    await made.stop()


async def test_pods_that_start_together_become_one_quorum_and_are_formatted_once(pods: Pods) -> None:
    await pods.start_all(*ALL)
    await pods.vote(*ALL)
    before = {node_id: pods.directory_id(node_id) for node_id in ALL}
    for node_id in ALL:
        code, said = await pods.init(node_id)

        assert ExitCode.STOPPED == code, said
        assert "is formatted already" in said

    assert before == {node_id: pods.directory_id(node_id) for node_id in ALL}


async def test_the_first_waits_for_every_other_node_before_it_begins_a_quorum(pods: Pods) -> None:
    """A node that cannot be asked may be the one that knows a quorum."""
    await pods.start(2)
    child = await pods.begin(FIRST)

    assert pods[3].address in await says(child, WAITS)
    assert not pods.volume(FIRST).exists()

    await pods.start(3)
    code, said = await ended(child)

    assert ExitCode.STOPPED == code, said
    assert "begins_a_quorum=true" in said.lower()


async def test_a_lost_volume_of_the_first_joins_the_quorum_that_is_there(pods: Pods) -> None:
    await pods.start_all(*ALL)
    await pods.vote(*ALL)
    await pods.running.kill(pods[FIRST])
    lost = pods.directory_id(FIRST)
    epoch = (await pods.find(2)).leader_epoch
    shutil.rmtree(pods.volume(FIRST))
    await pods.start(FIRST)
    directory_ids = await eventually(
        lambda: named_voters(pods, FIRST), lambda found: len(found) == len(ALL) and lost not in found
    )

    assert {pods.directory_id(node_id) for node_id in ALL} == directory_ids
    assert (await pods.find(FIRST)).leader_epoch >= epoch
    assert (await pods.leader(*ALL)) in ALL


async def test_a_lost_volume_of_the_first_begins_no_quorum_while_those_who_know_one_are_away(pods: Pods) -> None:
    """The two that are left hold the log: as long as neither answers, an empty volume says nothing."""
    await pods.start_all(*ALL)
    await pods.vote(*ALL)
    for node_id in ALL:
        await pods.running.kill(pods[node_id])
    shutil.rmtree(pods.volume(FIRST))
    child = await pods.begin(FIRST)
    await says(child, WAITS)

    await pods.start(2)  # one is enough to know that there is a quorum
    code, said = await ended(child)

    assert ExitCode.STOPPED == code, said
    assert "begins_a_quorum=false" in said.lower()

    await pods.start(3)
    await pods.start(FIRST)
    await pods.vote(*ALL)


async def test_a_volume_of_another_cluster_is_refused_and_stays_as_it_is(pods: Pods) -> None:
    await pods.format(2)
    before = content(pods.volume(2))
    other = uuid_text(random_uuid())
    code, said = await pods.init(2, cluster_id=other)

    assert ExitCode.CORRUPT == code, said
    assert f"cluster.id is {pods.plan.cluster_id}, {other} is expected" in said
    assert before == content(pods.volume(2))


async def test_nodes_of_another_cluster_are_refused_and_nothing_is_formatted(pods: Pods) -> None:
    await pods.start_all(2, 3)
    other = uuid_text(random_uuid())
    code, said = await pods.init(FIRST, cluster_id=other)

    assert ExitCode.MISCONFIGURED == code, said
    assert f"is of cluster {pods.plan.cluster_id}, and this one of {other}" in said
    assert not pods.volume(FIRST).exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("controller.quorum.auto.join.enable", "false"),
        ("controller.quorum.bootstrap.servers", ""),
        ("controller.quorum.bootstrap.servers", "127.0.0.1:1"),
    ],
)
async def test_settings_by_which_it_could_not_become_a_quorum_are_refused(pods: Pods, key: str, value: str) -> None:
    pods[FIRST].settings[key] = value
    code, said = await pods.init(FIRST)

    assert ExitCode.MISCONFIGURED == code, said
    assert key in said
    assert not pods.volume(FIRST).exists()


async def named_voters(pods: Pods, at: int) -> set[str]:
    """The directory ids of the voters, as a node knows them."""
    return {voter.directory_id for voter in (await pods.find(at)).voters}
