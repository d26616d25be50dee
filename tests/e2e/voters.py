"""Quorum nodes that are added and removed as voters: the first begins alone, the others join it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import grpc

from deploy.local.plan import ClusterPlan, Process, make_plan
from deploy.local.processes import Running
from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    FindQuorumRequest,
    FindQuorumResponse,
)
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.cli import formatting
from quorate.cli.node_config import read_node_config
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, uuid_text
from quorate.runtime.clients.client import open_channel
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import WITHIN_S, call_with_retries, eventually

Listener = AddRaftVoterRequest.Listener

FETCH_TIMEOUT_MS = 5_000
"""Of a voter: stories that begin with "1 leads" are not about leaders that are only slow."""
ADDED = {ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER}


class Nodes:
    """Quorum nodes without controllers. The first is formatted as the only voter, the others as nobody's."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.running = Running(plan)
        self._channels: dict[str, grpc.aio.Channel] = {}

    def __getitem__(self, node_id: int) -> Process:
        return self.plan.quorum[node_id - 1]

    async def start(self, node_id: int, **settings: str) -> None:
        """Format, if it is not, and start."""
        node = self[node_id]
        node.settings.update({key.replace("_", "."): value for key, value in settings.items()})
        await self.format(node_id)
        await self.running.spawn(node)
        await self.running.ready([node])
        # A new channel: an old one would wait a while before it connects again.
        if node.name in self._channels:
            await self._channels[node.name].close()
        self._channels[node.name] = open_channel(node.address)

    async def format(self, node_id: int) -> None:
        node = self[node_id]
        config = self.plan.directory / f"{node.name}.format.properties"
        settings = {
            **node.settings,
            "process.roles": "controller",
            "log.dirs": node.settings["metadata.log.dir"],
            "controller.listener.names": "CONTROLLER",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.plan.log_dir(int(settings["node.id"])).mkdir(exist_ok=True)
        asked = formatting.FormatOptions(
            cluster_id=self.plan.cluster_id,
            standalone=node_id == 1,
            no_initial_controllers=node_id != 1,
            ignore_formatted=True,
        )
        # As `quorate storage format` does, which e2e/test_first_start.py and tests/cli run as a command.
        formatting.write(formatting.plan(asked, read_node_config(config)), timestamp_ms=time.time_ns() // 1_000_000)

    def stub(self, node_id: int) -> QuorumStub:
        return QuorumStub(self._channels[self[node_id].name])

    def client(self, node_id: int) -> RaftClientStub:
        """The door of a node for its controller."""
        return RaftClientStub(self._channels[self[node_id].name])

    def directory_id(self, node_id: int) -> str:
        meta = read_meta_properties(self.plan.log_dir(node_id))
        assert meta is not None, node_id
        assert meta.directory_id is not None, meta
        return uuid_text(meta.directory_id)

    def listener(self, node_id: int) -> Listener:
        return Listener(name="CONTROLLER", host=self[node_id].place.host, port=self[node_id].port)

    async def find(self, node_id: int) -> FindQuorumResponse:
        found: FindQuorumResponse = (
            await call_with_retries(self.stub(node_id).FindQuorum, FindQuorumRequest())
        ).response
        return found

    async def leader(self, *node_ids: int) -> int:
        """Who leads, as far as all of these know."""

        async def named() -> set[int]:
            return {(await self.find(node_id)).leader_id for node_id in node_ids}

        return (await eventually(named, lambda found: len(found) == 1 and -1 not in found)).pop()

    async def voters(self, node_id: int) -> list[int]:
        return [voter.id for voter in (await self.find(node_id)).voters]

    async def heard_of(self, leader: int, *observers: int) -> None:
        """The leader comes to list these as observers: before, it does not know that they are there."""

        async def heard() -> set[int]:
            answer = (await call_with_retries(self.stub(leader).DescribeQuorum, description())).response
            return {replica.replica_id for replica in answer.topics[0].partitions[0].observers}

        await eventually(heard, lambda found: found >= set(observers))

    async def add(self, leader: int, node_id: int) -> ErrorCode:
        request = AddRaftVoterRequest(
            timeout_ms=10_000,
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
            listeners=[self.listener(node_id)],
        )
        answer = await self.stub(leader).AddRaftVoter(request, timeout=WITHIN_S)
        return ErrorCode(answer.error_code)

    async def remove(self, leader: int, node_id: int) -> ErrorCode:
        request = RemoveRaftVoterRequest(voter_id=node_id, voter_directory_id=self.directory_id(node_id))
        return ErrorCode((await self.stub(leader).RemoveRaftVoter(request, timeout=WITHIN_S)).error_code)

    async def alter(
        self, door: int, target: Iterable[int], *, validate_only: bool = False
    ) -> list[AlterQuorumResponse]:
        request = self.target(target)
        request.validate_only = validate_only
        return [step async for step in self.stub(door).AlterQuorum(request, timeout=WITHIN_S)]

    def target(self, node_ids: Iterable[int]) -> AlterQuorumRequest:
        """These are to vote."""
        voter = AlterQuorumRequest.Voter
        return AlterQuorumRequest(
            voters=[
                voter(id=node_id, directory_id=self.directory_id(node_id), listeners=[self.listener(node_id)])
                for node_id in node_ids
            ]
        )

    async def stop(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        await self.running.stop()


def description() -> DescribeQuorumRequest:
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=METADATA_PARTITION)
    return DescribeQuorumRequest(topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])])


def without_voters(process: Process) -> Process:
    """The voters are in the log; nodes alone need no controllers."""
    settings = {key: value for key, value in process.settings.items() if key != "controller.quorum.voters"}
    return replace(process, settings={**settings, "controller.absence.timeout.ms": "0"})


def planned(directory: Path, *, count: int) -> Nodes:
    """So many, not yet started, each of which finds the others."""
    plan = make_plan(directory, voters=count)
    servers = ",".join(node.address for node in plan.quorum)
    quorum = tuple(without_voters(node) for node in plan.quorum)
    for node in quorum:
        node.settings["controller.quorum.bootstrap.servers"] = servers
        node.settings["controller.quorum.fetch.timeout.ms"] = str(FETCH_TIMEOUT_MS)
    return Nodes(replace(plan, quorum=quorum))


async def three(nodes: Nodes) -> None:
    """Nodes 1, 2 and 3 vote, and 1 leads."""
    for node_id in (1, 2, 3):
        await nodes.start(node_id)
    for node_id in (2, 3):  # one whose answer came too late votes already
        await eventually(lambda node_id=node_id: nodes.add(1, node_id), ADDED.__contains__)  # type: ignore[misc]


def named_steps(steps: Iterable[AlterQuorumResponse]) -> list[tuple[str, int]]:
    return [(AlterQuorumResponse.Step.Name(step.step), step.voter_id) for step in steps]
