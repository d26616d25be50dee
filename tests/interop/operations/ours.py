"""The script's other targets: our control plane over gRPC, and another one through its gateways, over Kafka's wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from deploy.local.plan import ClusterPlan, make_plan
from kraft import Message
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ApiError
from quorate.network.client import Connection, connect
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, NodeId, Offset
from quorate.runtime.clients.client import open_channel
from quorate.wire.protobuf import to_protobuf, to_struct
from tests.e2e.calls import call_once
from tests.e2e.cluster import Cluster
from tests.interop.kafka.quorum import QUIET
from tests.interop.operations.apis import rpc_of
from tests.interop.operations.names import CLUSTER_ID
from tests.interop.operations.settings import COMMON, QUORUM, SESSION_TIMEOUT_MS
from tests.interop.operations.targets import Outcome

OF_HEARTBEATS: Final = "BrokerHeartbeat"
CONTROLLER_SETTINGS: Final = (
    "num.partitions",
    "default.replication.factor",
    "min.insync.replicas",
    "delegation.token.secret.key",
    "authorizer.class.name",
    "super.users",
    *QUIET,
)
_ASKED: Final = DescribeQuorumRequest.TopicData
HIGH_WATERMARK: Final = DescribeQuorumRequest((_ASKED(METADATA_TOPIC, (_ASKED.PartitionData(METADATA_PARTITION),)),))


class NotServed(Exception):
    """The service has no such RPC."""


class Ours:
    """The active controller, and the heartbeat service."""

    name = "Quorate"

    def __init__(self, active_id: NodeId, log_dir: Path, controller: ControllerStub, heartbeat: HeartbeatStub) -> None:
        self.active_id = active_id
        self.log_dir = log_dir
        self._controller = controller
        self._heartbeat = heartbeat
        self._acknowledged: Offset = 0

    @property
    def acknowledged(self) -> Offset:
        """What the answers' trailing metadata said: a majority has it on disk, and the leader soon."""
        return self._acknowledged

    async def ask(self, request: Message, *, version: int | None = None) -> Outcome:
        """`version` is of no account here: a gRPC message has all fields."""
        rpc = rpc_of(type(request))
        method = getattr(self._heartbeat if rpc == OF_HEARTBEATS else self._controller, rpc, None)
        if method is None:
            raise NotServed(rpc)
        try:
            answer = await call_once(method, to_protobuf(request))
        except ApiError as refusal:
            return Outcome(refusal=refusal.code)
        self._acknowledged = max(self._acknowledged, int(answer.trailing.get("kraft-offset", 0)))
        return Outcome(response=to_struct(answer.response))


class AtGateway:
    """The gateway beside the active controller."""

    name = "Quorate's gateway"

    def __init__(self, active_id: NodeId, log_dir: Path, client: Connection) -> None:
        self.active_id = active_id
        self.log_dir = log_dir
        self._client = client
        self._acknowledged: Offset = 0

    @property
    def acknowledged(self) -> Offset:
        """The high watermark after an answer: what was answered is below it."""
        return self._acknowledged

    async def ask(self, request: Message, *, version: int | None = None) -> Outcome:
        """Asks in the version that is given, as a Kafka client does."""
        response = await self._client.ask(request, version=version)
        described = await self._client.ask_for(DescribeQuorumResponse, HIGH_WATERMARK)
        self._acknowledged = max(self._acknowledged, described.topics[0].partitions[0].high_watermark)
        return Outcome(response=response)


@asynccontextmanager
async def running(scratch: Path, voters: tuple[NodeId, ...]) -> AsyncIterator[tuple[Ours, ClusterPlan]]:
    """Static voters, formatted and started, without brokers; all ends in good order."""
    plan = make_plan(scratch / "ours", voters=len(voters), session_timeout_ms=SESSION_TIMEOUT_MS, cluster_id=CLUSTER_ID)
    async with (
        _started(plan) as (cluster, leader_id),
        open_channel(cluster.controller(leader_id).address) as to_controller,
        open_channel(plan.heartbeat.address) as to_heartbeat,
    ):
        ours = Ours(leader_id, plan.log_dir(leader_id), ControllerStub(to_controller), HeartbeatStub(to_heartbeat))
        yield ours, plan


@asynccontextmanager
async def running_gateways(scratch: Path, voters: tuple[NodeId, ...]) -> AsyncIterator[AtGateway]:
    """The same with a gateway beside each voter; the one beside the active controller is asked."""
    plan = make_plan(
        scratch / "gateways",
        voters=len(voters),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        cluster_id=CLUSTER_ID,
        with_gateways=True,
    )
    async with _started(plan) as (_, leader_id):
        host, _, port = plan.bootstrap_controllers.split(",")[leader_id - 1].rpartition(":")
        async with await connect(host, int(port)) as client:
            yield AtGateway(leader_id, plan.log_dir(leader_id), client)


@asynccontextmanager
async def _started(plan: ClusterPlan) -> AsyncIterator[tuple[Cluster, NodeId]]:
    """The control plane, and who leads it."""
    for controller in plan.controllers:
        controller.settings.update({name: str(COMMON[name]) for name in CONTROLLER_SETTINGS})
    for node in plan.quorum:
        node.settings.update({name: str(value) for name, value in QUORUM.items()})
    cluster = Cluster(replace(plan, is_observed=False))
    try:
        await cluster.running.start()
        yield cluster, await cluster.active()
    finally:
        await cluster.stop()
