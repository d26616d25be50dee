"""A control plane of real processes on loopback, as these stories drive it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.broker import BrokerStandIn, stand_in
from deploy.local.client import Admin
from deploy.local.plan import HERE, RELEASE, ClusterPlan, PlanTls, Process, announcing_gateways, make_plan, secured
from deploy.local.processes import Running
from kraft import Message
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.observer_pb2_grpc import ObserverStub
from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse, ResignRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, Epoch, NodeId
from quorate.records import LeaderChangeMessage, NoOpRecord, RegisterControllerRecord, TopicRecord, decode_record
from quorate.runtime.clients.client import open_channel
from quorate.storage.failpoints import ENVIRONMENT as FAILPOINTS
from quorate.storage.names import PARTITION_DIRECTORY
from quorate.wire.batch import ControlType, batches, check_batch, data_values, records
from quorate.wire.codec import decode
from tests.e2e.calls import DEADLINE_MS, WITHIN_S, attempt, call_once, call_with_retries, eventually
from tests.e2e.network import Network

VOTERS = (1, 2, 3)
PATIENT = {node_id: {"controller.quorum.fetch.timeout.ms": "10000"} for node_id in VOTERS}
"""Quorum settings of stories that are not about failover: a leader that is only slow is not replaced."""
SESSION_TIMEOUT_MS = 30_000
"""Of brokers, which live in the process of the tests and are held up with it."""
LOOK_MS = 2_000
"""The deadline of one look at a node that may be down: there will be another."""


class Cluster:
    """One control plane with its broker stand-ins."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.running = Running(plan)
        self.brokers: dict[NodeId, BrokerStandIn] = {}
        self.admin = Admin(plan)
        self._channels: dict[str, grpc.aio.Channel] = {}

    # Who there is.

    def quorum(self, node_id: NodeId) -> Process:
        return self.plan.quorum[node_id - 1]

    def controller(self, node_id: NodeId) -> Process:
        return self.plan.controllers[node_id - 1]

    def channel(self, process: Process) -> grpc.aio.Channel:
        if process.address not in self._channels:
            self._channels[process.address] = open_channel(process.address, self.plan.transport_to(process))
        return self._channels[process.address]

    def controller_stub(self, node_id: NodeId) -> ControllerStub:
        return ControllerStub(self.channel(self.controller(node_id)))

    def quorum_stub(self, node_id: NodeId) -> QuorumStub:
        return QuorumStub(self.channel(self.quorum(node_id)))

    @property
    def observer_stub(self) -> ObserverStub:
        return ObserverStub(self.channel(self.plan.observer))

    @property
    def heartbeat_stub(self) -> HeartbeatStub:
        return HeartbeatStub(self.channel(self.plan.heartbeat))

    # From start to end.

    async def start(self) -> None:
        await self.running.start()
        async with asyncio.TaskGroup() as joining:
            for broker_id in self.plan.brokers:
                joining.create_task(self.join(broker_id))

    async def join(self, broker_id: NodeId) -> BrokerStandIn:
        """A new process of this broker."""
        broker = self.brokers[broker_id] = stand_in(self.plan, broker_id)
        await broker.start()
        return broker

    async def heal(self) -> None:
        """Every process is up, and ready."""
        for process in self.plan.processes:
            if not self.running.is_up(process):
                await self._spawn(process)
        await self.running.ready(self.plan.processes)

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.close()
        for channel in self._channels.values():
            await channel.close()
        await self.admin.close()
        await self.running.stop()

    # What happens to it.

    async def kill(self, process: Process, number: signal.Signals = signal.SIGKILL) -> int:
        return await self.running.kill(process, number)

    async def ended(self, process: Process) -> int:
        """Wait until it has ended by itself; the answer is its exit code."""
        return await self.running.ended(process, within_s=WITHIN_S)

    async def restart(self, process: Process, *, failpoints: str = "") -> None:
        """Anew, once it has ended; `failpoints` is what QUORATE_FAILPOINTS says to it."""
        await self._spawn(process, failpoints=failpoints)
        await self.running.ready([process])

    async def format_anew(self, process: Process, *, joins: bool = False) -> None:
        """A node that has ended loses its disk, and gets an empty one with another directory id."""
        shutil.rmtree(process.settings["metadata.log.dir"])
        await self.running.format(process, joins=joins)

    async def end_voters(self) -> None:
        """Every controller and every quorum node is asked to end, in this order, and does so in good order."""
        codes = {each.name: await self.kill(each, signal.SIGTERM) for each in self.plan.controllers}
        codes |= {each.name: await self.kill(each, signal.SIGTERM) for each in self.plan.quorum}

        assert dict.fromkeys(codes, 0) == codes

    async def _spawn(self, process: Process, *, failpoints: str = "") -> None:
        """With a new channel: an old one would wait a while before it connects again."""
        await self.running.spawn(process, environ={FAILPOINTS: failpoints})
        if process.address in self._channels:
            await self._channels.pop(process.address).close()

    @asynccontextmanager
    async def stopped(self, *processes: Process) -> AsyncIterator[None]:
        """SIGSTOP to each, and SIGCONT at the end."""
        pids = [self.running.pid(process) for process in processes]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    # What it says.

    async def create(self, *names: str, at: NodeId) -> CreateTopicsResponse:
        """One partition on three brokers each; asked again after a retriable error, as by Kafka's admin client.

        A topic that an earlier call has made, whose answer was lost, is answered as made.
        """
        request = topics_request(names, timeout_ms=DEADLINE_MS)
        answer = await call_with_retries(self.controller_stub(at).CreateTopics, request)
        response: CreateTopicsResponse = answer.response
        if answer.is_retried:
            await self._tell_of_made(response, at)
        return response

    async def create_once(self, *names: str, at: NodeId, deadline_ms: int = DEADLINE_MS) -> CreateTopicsResponse:
        """The same by one call, for who counts them. Raises ApiError."""
        request = topics_request(names, timeout_ms=deadline_ms)
        answer = await call_once(self.controller_stub(at).CreateTopics, request, deadline_ms=deadline_ms)
        response: CreateTopicsResponse = answer.response
        return response

    async def _tell_of_made(self, response: CreateTopicsResponse, at: NodeId) -> None:
        """Topics that are there already are in the answer as if it had made them."""
        made = [topic for topic in response.topics if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS]
        known = await self.topics(at=at) if made else {}
        for topic in made:
            told = known[topic.name]
            topic.ClearField("error_code")
            topic.ClearField("error_message")
            topic.topic_id, topic.num_partitions = told.topic_id, len(told.partitions)
            topic.replication_factor = len(told.partitions[0].replica_nodes)

    async def find(self, node_id: NodeId) -> FindQuorumResponse:
        """The quorum as one node sees it, which is up or comes up."""
        found: FindQuorumResponse = (
            await call_with_retries(self.quorum_stub(node_id).FindQuorum, FindQuorumRequest())
        ).response
        return found

    async def find_once(self, node_id: NodeId) -> FindQuorumResponse:
        """The same of a node that may be down. Raises ApiError."""
        method = self.quorum_stub(node_id).FindQuorum
        found: FindQuorumResponse = (await call_once(method, FindQuorumRequest(), deadline_ms=LOOK_MS)).response
        return found

    async def leader(self) -> NodeId:
        """The leader, once a majority of the nodes names the same one and it says so itself."""

        async def named() -> NodeId | None:
            seen = await asyncio.gather(*(attempt(self.find_once(node_id)) for node_id in VOTERS))
            views = [(view.leader_id, view.leader_epoch) for view in seen if view is not None]
            leader_id, epoch = max(views, key=lambda view: view[1], default=(-1, 0))
            leads = any(view is not None and view.node_id == leader_id and view.role == "Leader" for view in seen)
            return leader_id if leads and views.count((leader_id, epoch)) >= 2 else None

        leader_id = await eventually(named)
        assert leader_id is not None
        return leader_id

    async def active(self) -> NodeId:
        """The active controller, once it answers as such."""

        async def leads() -> NodeId | None:
            leader_id = await self.leader()
            described = await attempt(self.describe_quorum(leader_id, within_s=LOOK_MS / 1000))
            return leader_id if described is not None and described.leader_id == leader_id else None

        leader_id = await eventually(leads)
        assert leader_id is not None
        return leader_id

    async def pass_leadership(self, *, to: Container[NodeId]) -> NodeId:
        """Have leaders resign until one of `to` leads and its controller is active."""

        async def passed() -> NodeId | None:
            leader = await self.leader()
            if leader in to:
                active = await self.active()
                return active if active in to else None
            view = await attempt(self.find_once(leader))
            if view is not None:
                await attempt(self.resign(leader, epoch=view.leader_epoch))
            return None

        leader = await eventually(passed)
        assert leader is not None
        return leader

    async def resign(self, node_id: NodeId, *, epoch: Epoch) -> None:
        """The leader of an epoch gives it up; who does not lead it does nothing. Raises ApiError."""
        method = RaftClientStub(self.channel(self.quorum(node_id))).Resign
        await call_with_retries(method, ResignRequest(epoch=epoch))

    async def describe_quorum(
        self, at: NodeId, *, within_s: float = WITHIN_S
    ) -> DescribeQuorumResponse.TopicData.PartitionData:
        """The quorum as its leader tells it through one controller. Raises ApiError if nobody does in time."""
        return (await self._described(at, within_s)).topics[0].partitions[0]

    async def voter_listeners(self, at: NodeId) -> dict[NodeId, set[str]]:
        """The names of each voter's listeners in the voters record, as the leader tells them through one controller."""
        return {node.node_id: {each.name for each in node.listeners} for node in (await self._described(at)).nodes}

    async def _described(self, at: NodeId, within_s: float = WITHIN_S) -> DescribeQuorumResponse:
        partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=METADATA_PARTITION)
        request = DescribeQuorumRequest(
            topics=[DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
        )

        async def told() -> DescribeQuorumResponse:
            answer = await call_with_retries(self.controller_stub(at).DescribeQuorum, request, within_s=within_s)
            response: DescribeQuorumResponse = answer.response
            return response

        try:  # without a leader it is answered, too, with an error in the partition
            return await eventually(told, lambda each: not each.topics[0].partitions[0].error_code, within_s=within_s)
        except AssertionError as nobody_leads:
            raise ApiError(ErrorCode.NOT_CONTROLLER, str(nobody_leads)) from None

    async def settled_records(self) -> list[Message]:
        """The records in the active controller's log. All controllers have registered, so only callers cause more."""
        log_dir = self.plan.log_dir(await self.active())

        async def read() -> list[Message]:
            return stored_records(log_dir)

        def all_registered(records: list[Message]) -> bool:
            return set(VOTERS) == {each.controller_id for each in records if isinstance(each, RegisterControllerRecord)}

        return await eventually(read, all_registered)

    async def topics(self, at: NodeId | None = None) -> dict[str, Any]:
        """All topics by name, as one controller tells them, page by page; as the observer tells them without one."""
        stub = self.observer_stub if at is None else self.controller_stub(at)
        found: list[Any] = []
        request = DescribeTopicPartitionsRequest()
        while True:
            answer = await call_with_retries(stub.DescribeTopicPartitions, request)
            page: DescribeTopicPartitionsResponse = answer.response
            found += page.topics
            if not page.HasField("next_cursor"):
                break
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
            )
            request = DescribeTopicPartitionsRequest(cursor=cursor)
        names = [topic.name for topic in found]
        assert sorted(set(names)) == names
        return {topic.name: topic for topic in found}

    async def known(self, names: Sequence[str], *, at: NodeId, deadline_ms: int) -> set[str]:
        """Which of these topics one controller knows; asked once."""
        wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
        stub = self.controller_stub(at)
        request = DescribeTopicPartitionsRequest(topics=wanted)
        answer = await call_once(stub.DescribeTopicPartitions, request, deadline_ms=deadline_ms)
        return {topic.name for topic in answer.response.topics if not topic.error_code}

    async def health(self, process: Process, service: str = "") -> bool:
        method = HealthStub(self.channel(process)).Check
        answer = await call_with_retries(method, HealthCheckRequest(service=service))
        return bool(answer.response.status == HealthCheckResponse.SERVING)


@asynccontextmanager
async def control_plane(
    directory: Path,
    *,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    quorum_settings: Mapping[NodeId, Mapping[str, str]] | None = None,
    controller_settings: Mapping[str, str] | None = None,
    network: Network | None = None,
    dynamic: bool = False,
    observer_settings: Mapping[str, str] | None = None,
    with_gateways: bool = False,
    announces_gateways: bool = False,
    gateway_settings: Mapping[NodeId, Mapping[str, str]] | None = None,
    with_stand_ins: bool = True,
    release: str = RELEASE,
    tls: Callable[[ClusterPlan], PlanTls] | None = None,
    is_observed: bool = True,
) -> AsyncIterator[Cluster]:
    """A control plane on loopback, or in a network; started, and everything is ended at the end.

    Where no test asks the observer, nor reads spans, the plane need not be observed: it takes a quarter of all.
    `announces_gateways` is for Kafka brokers, which may find the voters in the log. `tls` makes the certificates with
    which its processes speak to each other.
    """
    home = HERE if network is None else network.home
    nodes_at = {} if network is None else {node_id: network.place(node_id) for node_id in VOTERS}
    plan = make_plan(
        directory,
        session_timeout_ms=session_timeout_ms,
        home=home,
        nodes_at=nodes_at,
        dynamic=dynamic,
        with_gateways=with_gateways,
    )
    plan = announcing_gateways(plan) if announces_gateways else plan
    plan = plan if tls is None else secured(plan, tls(plan))
    brokers = plan.brokers if with_stand_ins else ()
    cluster = Cluster(replace(plan, release=release, brokers=brokers, is_observed=is_observed))
    for node_id, settings in (quorum_settings or {}).items():
        cluster.quorum(node_id).settings.update(settings)
    for controller in cluster.plan.controllers:
        controller.settings.update(controller_settings or {})
    for node_id, settings in (gateway_settings or {}).items():
        cluster.plan.gateways[node_id - 1].settings.update(settings)
    cluster.plan.observer.settings.update(observer_settings or {})
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


def topics_request(names: Sequence[str], *, timeout_ms: int) -> CreateTopicsRequest:
    """One partition on three brokers each."""
    topic = CreateTopicsRequest.CreatableTopic
    topics = [topic(name=name, num_partitions=1, replication_factor=3) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def others(*those: NodeId) -> list[NodeId]:
    """The voters but for these."""
    return [node_id for node_id in VOTERS if node_id not in those]


def at_one_door(plan: ClusterPlan, node_id: NodeId) -> ClusterPlan:
    """The same plan for a client that knows one controller only."""
    return replace(plan, controllers=(plan.controllers[node_id - 1],))


def stored_batches(log_dir: Path) -> list[tuple[int, int, bytes]]:
    """(base offset, epoch, bytes) of every batch in a node's log; each is checked."""
    found = []
    for segment in sorted((log_dir / PARTITION_DIRECTORY).glob("*.log")):
        data = segment.read_bytes()
        for position, _ in batches(data):
            header = check_batch(data, position)
            found.append((header.base_offset, header.epoch, data[position : position + header.size]))
    return found


def stored_records(log_dir: Path) -> list[Message]:
    """Every data record of a node's log, in order, but for those that say nothing."""
    found = [
        decode_record(value)
        for _, _, data in stored_batches(log_dir)
        for position, header in batches(data)
        if not header.is_control
        for value in data_values(data, position, header)
    ]
    return [record for record in found if not isinstance(record, NoOpRecord)]


def stored_topics(log_dir: Path) -> list[str]:
    """The name in every TopicRecord of a node's log, as often as it is there."""
    return [record.name for record in stored_records(log_dir) if isinstance(record, TopicRecord)]


def stored_leaders(log_dir: Path) -> list[tuple[int, NodeId]]:
    """(epoch, leader) of every LeaderChange record in a node's log."""
    found = []
    for _, epoch, data in stored_batches(log_dir):
        for position, header in batches(data):
            for record in records(data, position, header) if header.is_control else ():
                assert record.key is not None
                assert record.value is not None
                if int.from_bytes(record.key[2:4], "big") == ControlType.LEADER_CHANGE:
                    version = int.from_bytes(record.value[:2], "big")
                    found.append((epoch, decode(LeaderChangeMessage, record.value, version).leader_id))
    return found
