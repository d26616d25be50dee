"""The script's second target: our control plane, over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from deploy.local.plan import ClusterPlan, make_plan
from kraft import Message
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ApiError
from quorate.nouns import NodeId, Offset
from quorate.runtime.client import open_channel
from quorate.wire.protobuf import to_protobuf, to_struct
from tests.e2e.calls import call_once
from tests.e2e.cluster import Cluster
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
)


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


@asynccontextmanager
async def running(scratch: Path, voters: tuple[NodeId, ...]) -> AsyncIterator[tuple[Ours, ClusterPlan]]:
    """Static voters, formatted and started, without brokers; all ends in good order."""
    plan = make_plan(scratch / "ours", voters=len(voters), session_timeout_ms=SESSION_TIMEOUT_MS, cluster_id=CLUSTER_ID)
    for controller in plan.controllers:
        controller.settings.update({name: str(COMMON[name]) for name in CONTROLLER_SETTINGS})
    for node in plan.quorum:
        node.settings.update({name: str(value) for name, value in QUORUM.items()})
    cluster = Cluster(plan)
    try:
        await cluster.running.start()
        leader_id = await cluster.active()
        async with (
            open_channel(cluster.controller(leader_id).address) as to_controller,
            open_channel(plan.heartbeat.address) as to_heartbeat,
        ):
            ours = Ours(leader_id, plan.log_dir(leader_id), ControllerStub(to_controller), HeartbeatStub(to_heartbeat))
            yield ours, plan
    finally:
        await cluster.stop()
