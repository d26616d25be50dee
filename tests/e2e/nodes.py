"""Quorum nodes alone, as processes without controllers, heartbeat or observer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc

from deploy.local.plan import ClusterPlan
from deploy.local.processes import Running
from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse, ResignRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually


class Nodes:
    """Quorum nodes as processes, with no controllers beside them."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.running = Running(plan)
        self._channels = [grpc.aio.insecure_channel(each.address) for each in plan.quorum]
        self.stubs = [QuorumStub(channel) for channel in self._channels]

    async def format(self, *node_ids: NodeId) -> None:
        """Their directories, which know nothing yet."""
        self.plan.directory.mkdir(parents=True, exist_ok=True)
        for process in [self.plan.quorum[node_id - 1] for node_id in node_ids]:
            process.settings["controller.absence.timeout.ms"] = "600000"
            await self.running.format(process)

    async def start(self, *node_ids: NodeId, environ: Mapping[str, str] | None = None) -> None:
        """Processes on formatted directories; they are ready. `environ` is added to their environment."""
        await self.format(*node_ids)
        those = [self.plan.quorum[node_id - 1] for node_id in node_ids]
        for process in those:
            await self.running.spawn(process, environ=environ)
        await self.running.ready(those)

    async def find(self, node_id: NodeId) -> FindQuorumResponse:
        found: FindQuorumResponse = (
            await call_with_retries(self.stubs[node_id - 1].FindQuorum, FindQuorumRequest())
        ).response
        return found

    async def leader(self, *, above: int = 0, of: Sequence[NodeId] = (1, 2)) -> tuple[NodeId, int]:
        """Who leads and in which epoch, once all these nodes say so."""

        async def agreed() -> tuple[NodeId, int] | None:
            views = [await self.find(node_id) for node_id in of]
            said = {(view.leader_id, view.leader_epoch) for view in views}
            one = min(said)
            return one if len(said) == 1 and one[0] > 0 and one[1] > above else None

        found = await eventually(agreed)
        assert found is not None
        return found

    async def resign(self, node_id: NodeId, epoch: int) -> None:
        await call_with_retries(RaftClientStub(self._channels[node_id - 1]).Resign, ResignRequest(epoch=epoch))

    async def stop(self) -> None:
        for channel in self._channels:
            await channel.close()
        await self.running.stop()
