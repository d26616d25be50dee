"""Voters come and go while the quorum works (KIP-853): by RPC, by themselves, one by one or by a target set."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from deploy.local.plan import Plan, Process, make_plan
from deploy.local.processes import Running
from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    FindQuorumRequest,
    FindQuorumResponse,
    TransferLeadershipRequest,
)
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ErrorCode
from quorate.nouns import uuid_text
from quorate.runtime.client import open_channel
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.cluster import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

Listener = AddRaftVoterRequest.Listener


class Nodes:
    """Quorum nodes without controllers. The first is formatted as the only voter, the others as nobody's."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.running = Running(plan)
        self._channels: dict[str, grpc.aio.Channel] = {}

    def __getitem__(self, node_id: int) -> Process:
        return self.plan.quorum[node_id - 1]

    async def start(self, node_id: int, **settings: str) -> None:
        """Format, if it is not, and start."""
        node = self[node_id]
        node.settings.update({key.replace("_", "."): value for key, value in settings.items()})
        await self._format(node, "--standalone" if node_id == 1 else "--no-initial-controllers")
        await self.running.spawn(node)
        await self.running.ready([node])
        # A new channel: an old one would wait a while before it connects again.
        if node.name in self._channels:
            await self._channels[node.name].close()
        self._channels[node.name] = open_channel(node.address)

    async def _format(self, node: Process, how: str) -> None:
        config = self.plan.directory / f"{node.name}.format.properties"
        settings = {
            **node.settings,
            "process.roles": "controller",
            "log.dirs": node.settings["metadata.log.dir"],
            "controller.listener.names": "CONTROLLER",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.plan.log_dir(int(settings["node.id"])).mkdir(exist_ok=True)
        formatting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "quorate.cli", "storage", "format", "--ignore-formatted", how),
            *("--config", str(config), "--cluster-id", self.plan.cluster_id),
        )
        assert 0 == await formatting.wait()

    def stub(self, node_id: int) -> QuorumStub:
        return QuorumStub(self._channels[self[node_id].name])

    def directory_id(self, node_id: int) -> str:
        meta = read_meta_properties(self.plan.log_dir(node_id))
        assert meta is not None, node_id
        assert meta.directory_id is not None, meta
        return uuid_text(meta.directory_id)

    def listener(self, node_id: int) -> Listener:
        return Listener(name="CONTROLLER", host=self[node_id].place.host, port=self[node_id].port)

    async def find(self, node_id: int) -> FindQuorumResponse:
        return await self.stub(node_id).FindQuorum(FindQuorumRequest(), timeout=5)

    async def leader(self, *node_ids: int) -> int:
        """Who leads, as far as all of these know."""

        async def named() -> set[int]:
            return {(await self.find(node_id)).leader_id for node_id in node_ids}

        return (await eventually(named, lambda found: len(found) == 1 and -1 not in found)).pop()

    async def voters(self, node_id: int) -> list[int]:
        return [voter.id for voter in (await self.find(node_id)).voters]

    async def add(self, leader: int, node_id: int) -> ErrorCode:
        request = AddRaftVoterRequest(
            timeout_ms=10_000,
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
            listeners=[self.listener(node_id)],
        )
        answer = await self.stub(leader).AddRaftVoter(request, timeout=20)
        return ErrorCode(answer.error_code)

    async def remove(self, leader: int, node_id: int) -> ErrorCode:
        request = RemoveRaftVoterRequest(voter_id=node_id, voter_directory_id=self.directory_id(node_id))
        return ErrorCode((await self.stub(leader).RemoveRaftVoter(request, timeout=20)).error_code)

    async def alter(
        self, door: int, target: Iterable[int], *, validate_only: bool = False
    ) -> list[AlterQuorumResponse]:
        voters = [
            AlterQuorumRequest.Voter(
                id=node_id, directory_id=self.directory_id(node_id), listeners=[self.listener(node_id)]
            )
            for node_id in target
        ]
        request = AlterQuorumRequest(voters=voters, validate_only=validate_only)
        return [step async for step in self.stub(door).AlterQuorum(request, timeout=60)]

    async def stop(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        await self.running.stop()


def without_voters(process: Process) -> Process:
    """The voters are in the log; nodes alone need no controllers."""
    settings = {key: value for key, value in process.settings.items() if key != "controller.quorum.voters"}
    return replace(process, settings={**settings, "controller.absence.timeout.ms": "0"})


@pytest_asyncio.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    plan = make_plan(tmp_path, voters=4)
    servers = ",".join(node.address for node in plan.quorum)
    quorum = tuple(without_voters(node) for node in plan.quorum)
    for node in quorum:
        node.settings["controller.quorum.bootstrap.servers"] = servers
    nodes = Nodes(replace(plan, quorum=quorum))
    try:
        yield nodes
    finally:
        await nodes.stop()


async def three(nodes: Nodes) -> None:
    """Nodes 1, 2 and 3 vote, and 1 leads."""
    for node_id in (1, 2, 3):
        await nodes.start(node_id)
    for node_id in (2, 3):
        await eventually(lambda node_id=node_id: nodes.add(1, node_id), lambda error: error is ErrorCode.NONE)  # type: ignore[misc]


async def test_a_quorum_grows_from_one_to_three_and_outlives_its_first(nodes: Nodes) -> None:
    await three(nodes)

    assert [1, 2, 3] == await nodes.voters(1)
    assert 1 == (await nodes.find(1)).kraft_version

    await nodes.running.kill(nodes[1])
    await eventually(lambda: nodes.leader(2, 3), lambda leader: leader in (2, 3))

    assert [1, 2, 3] == await nodes.voters(2)

    await nodes.start(1)
    assert await nodes.leader(1, 2, 3) in (2, 3)


async def test_a_leader_removes_itself_and_another_leads(nodes: Nodes) -> None:
    await three(nodes)

    assert ErrorCode.NONE == await nodes.remove(1, 1)

    leader = await eventually(lambda: nodes.leader(2, 3), lambda leader: leader in (2, 3))
    assert [2, 3] == await nodes.voters(leader)

    async def follows() -> tuple[str, int]:
        view = await nodes.find(1)
        return view.role, view.leader_id

    assert ("Follower", leader) == await eventually(follows, lambda seen: seen == ("Follower", leader))


async def test_leadership_goes_to_the_voter_that_is_named(nodes: Nodes) -> None:
    await three(nodes)
    for voter in (3, 2):
        leader = await nodes.leader(1, 2, 3)
        answer = await nodes.stub(leader).TransferLeadership(TransferLeadershipRequest(voter_id=voter), timeout=20)

        assert ErrorCode.NONE == answer.error_code, answer
        assert voter == answer.leader_id
        assert voter == await nodes.leader(1, 2, 3)

    refused = await nodes.stub(1).TransferLeadership(TransferLeadershipRequest(voter_id=3), timeout=20)
    unknown = await nodes.stub(2).TransferLeadership(TransferLeadershipRequest(voter_id=9), timeout=20)

    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == refused.error_code
    assert ErrorCode.VOTER_NOT_FOUND == unknown.error_code


async def test_a_disk_that_is_wiped_is_another_voter(nodes: Nodes) -> None:
    """The old key stays in the set and does not count; the new one joins by itself. KIP-1186."""
    await three(nodes)
    old = nodes.directory_id(3)
    await nodes.running.kill(nodes[3])
    wipe(nodes.plan.log_dir(3))
    await nodes.start(3, controller_quorum_auto_join_enable="true")

    assert old != nodes.directory_id(3)

    async def keys() -> list[tuple[int, str]]:
        return [(voter.id, voter.directory_id) for voter in (await nodes.find(await nodes.leader(1, 2))).voters]

    wanted = [(node_id, nodes.directory_id(node_id)) for node_id in (1, 2, 3)]
    assert wanted == await eventually(keys, lambda seen: seen == wanted)


async def test_a_target_set_is_reached_voter_by_voter_from_any_node(nodes: Nodes) -> None:
    await three(nodes)
    await nodes.start(4)
    plan = await nodes.alter(2, (2, 3, 4), validate_only=True)

    assert [("STEP_ADDING", 4), ("STEP_REMOVING", 1), ("STEP_DONE", -1)] == told(plan)
    assert [1, 2, 3] == await nodes.voters(1)

    steps = [step for step in told(await nodes.alter(2, (2, 3, 4))) if step[0] != "STEP_WAITING"]

    assert [
        ("STEP_ADDING", 4),
        ("STEP_ADDED", 4),
        ("STEP_REMOVING", 1),
        ("STEP_REMOVED", 1),
        ("STEP_DONE", -1),
    ] == steps
    assert [2, 3, 4] == await nodes.voters(await nodes.leader(2, 3, 4))
    assert [("STEP_DONE", -1)] == told(await nodes.alter(4, (2, 3, 4)))


def told(steps: Iterable[AlterQuorumResponse]) -> list[tuple[str, int]]:
    return [(AlterQuorumResponse.Step.Name(step.step), step.voter_id) for step in steps]


def wipe(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()
