"""From clear text to TLS without a stop, as in services/TO_TLS.md: three steps, each a rolling restart."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import grpc
import pytest

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process, secured
from deploy.local.ports import free_ports
from kraft.api.create_topics import CreateTopicsRequest as CreateTopicsOnTheWire
from kraft.api.create_topics import CreateTopicsResponse
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import connect
from quorate.nouns import NodeId
from quorate.records import RegisterControllerRecord, VotersRecord
from quorate.runtime.statuses import is_retriable
from quorate.wire.batch import ControlType, batches, records
from quorate.wire.codec import decode
from services.controller.config import STANDARD_AUTHORIZER
from tests.e2e.calls import DEADLINE_MS, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, control_plane, stored_batches, stored_records
from tests.e2e.secured import PATIENCE
from tests.e2e.writer import BETWEEN_S, caught_up
from tests.network.certificates import authority

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

SECURE: Final = "SECURE"
PLAINTEXT, SSL = 0, 1
"""The security protocols in the log."""
MORE: Final = 3
"""So many writes in each way between two steps."""
SHOWN: Final = (
    r"RULE:^CN=(?:quorum|controller|observer)-([0-9]+),O=cluster$/$1/,"
    r"RULE:^CN=(?:heartbeat-1|gateway-[0-9]|clients),O=cluster$/*/"
)
"""`principal.node.id.mapping.rules` for the names of the certificates here."""


class Moving:
    """A control plane on its way, and who writes to it: each topic is asked for until it is there."""

    def __init__(self, cluster: Cluster, tls: PlanTls) -> None:
        self.cluster = cluster
        self.plain = cluster.plan
        self.written: dict[str, list[str]] = {}
        own = [each for each in self.plain.processes if each.service != "gateway"]
        names = [each.name for each in own]
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.processes = own
        """All but the gateways, whose own listeners speak Kafka's wire."""
        self.listener = {each.name: each.settings["listeners"].partition("://")[0] for each in own}
        self.secure = secured(self.plain, tls)  # its processes have settings of their own
        moved = {
            each.name: replace(each, port=ports[each.name]) for each in self.secure.processes if each.name in ports
        }
        self.addresses = {each.address: moved[each.name].address for each in own}
        self.plan = replace(
            self.secure,
            quorum=tuple(moved[each.name] for each in self.plain.quorum),
            controllers=tuple(moved[each.name] for each in self.plain.controllers),
            placer=moved[self.plain.placer.name],
            heartbeat=moved[self.plain.heartbeat.name],
            observer=moved[self.plain.observer.name],
        )

    # What each step changes in the settings of a process.

    def add_listener(self, process: Process) -> None:
        """1: a listener with TLS beside the one in the clear, at which all go on to call each other."""
        after = self._after(process)
        files = {key: value for key, value in after.settings.items() if key.startswith("ssl.")}
        own = self.listener[process.name]
        process.settings.update(
            {
                **files,
                "listeners": f"{process.settings['listeners']},{SECURE}://{after.address}",
                "listener.security.protocol.map": f"{own}:PLAINTEXT,{SECURE}:SSL",
            }
        )

    def call_there(self, process: Process) -> None:
        """2: this process calls the others at the listener with TLS."""
        if process.service == "gateway":
            after = self._after(process)
            process.settings.update({key: value for key, value in after.settings.items() if key.startswith("grpc.")})
        else:
            process.settings["controller.listener.names"] = f"{SECURE},{self.listener[process.name]}"
        for key, value in process.settings.items():
            if key.startswith("controller.quorum.") or key.endswith((".endpoint", ".endpoints")):
                for plain, secure in self.addresses.items():
                    value = value.replace(plain, secure)
                process.settings[key] = value

    def drop_listener(self, process: Process) -> None:
        """3: nothing in the clear any more; and now that each caller has a certificate, rights are asked for."""
        after = self._after(process)
        names = [*(each.name for each in self.plain.processes), CLIENTS]
        process.settings.update(
            {
                "listeners": f"{SECURE}://{after.address}",
                "listener.security.protocol.map": f"{SECURE}:SSL",
                "controller.listener.names": SECURE,
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": ";".join(f"User:CN={name},O=cluster" for name in names),
            }
        )
        if process.service not in ("placer", "observer"):
            process.settings["principal.node.id.mapping.rules"] = SHOWN

    def _after(self, process: Process) -> Process:
        return next(each for each in self.plan.processes if each.name == process.name)

    # The rolling restart, and the writes meanwhile.

    async def restart_all(self, *others: Process) -> None:
        """Node after node, each its quorum node and its controller, the leader in its turn; then the other services."""
        plan = self.plain
        for at_once in (
            *zip(plan.controllers, plan.quorum, strict=True),
            (plan.placer, plan.heartbeat, plan.observer, *others),
        ):
            for process in at_once:
                await self.cluster.kill(process, signal.SIGTERM)
            for process in reversed(at_once):
                await self.cluster.running.spawn(process)
            await self.cluster.running.ready(self._asked(at_once))
            await caught_up(self.cluster)

    def _asked(self, processes: Iterable[Process]) -> list[Process]:
        """The processes at the addresses at which their health is asked for."""
        names = {each.name for each in processes}
        return [each for each in self.cluster.plan.processes if each.name in names]

    def move_clients(self) -> None:
        """Calls of the tests, of brokers, and spans go to the listeners with TLS from now on."""
        self.cluster.plan = self.cluster.running.plan = self.plan

    async def write(self, kind: str, cluster: Cluster, door: NodeId) -> None:
        """Until cancelled."""
        written = self.written.setdefault(f"{kind}-{door}", [])
        while True:
            name = f"{kind}-{door}-{len(written)}"
            answer = await cluster.create(name, at=door)
            assert [ErrorCode.NONE] == [each.error_code for each in answer.topics], answer
            written.append(name)
            await asyncio.sleep(BETWEEN_S)

    @asynccontextmanager
    async def writing(self, kind: str) -> AsyncIterator[None]:
        """Writes at each door by clients of the present plan, for the length of the block."""
        cluster = Cluster(self.cluster.plan)
        async with asyncio.TaskGroup() as tasks:
            writers = [tasks.create_task(self.write(kind, cluster, door)) for door in VOTERS]
            await self.more(kind)
            yield
            await self.more(kind)
            for writer in writers:
                writer.cancel()
        for channel in (cluster.channel(each) for each in cluster.plan.controllers):
            await channel.close()
        await cluster.admin.close()

    async def more(self, kind: str) -> None:
        """Until some more topics are there by each of these writers."""
        before = {door: len(self.written.get(f"{kind}-{door}", ())) for door in VOTERS}

        async def least() -> int:
            return min(len(self.written.get(f"{kind}-{door}", ())) - count for door, count in before.items())

        await eventually(least, lambda count: count >= MORE)

    async def at_a_gateway(self, name: str) -> ErrorCode:
        """The error code when an anonymous Kafka client creates a topic at the gateway beside node 1."""
        host, _, port = self.plain.bootstrap_controllers.split(",")[0].rpartition(":")
        request = CreateTopicsOnTheWire((CreateTopicsOnTheWire.CreatableTopic(name, 1, 3),), DEADLINE_MS)

        async def created() -> ErrorCode:
            async with await connect(host, int(port), timeouts=PATIENCE) as client:
                answer = await client.ask_for(CreateTopicsResponse, request)
            return ErrorCode(answer.topics[0].error_code)

        code = await eventually(created, lambda code: not is_retriable(ApiError(code, "")))
        return ErrorCode.NONE if code is ErrorCode.TOPIC_ALREADY_EXISTS else code

    # What is in the log.

    async def has_listeners(self, controllers: dict[str, int], voters: dict[NodeId, list[str]]) -> None:
        """Waits until the log has these for each controller, and for the voters."""
        await eventually(self.listeners, lambda found: found == (dict.fromkeys(VOTERS, controllers), voters))

    async def listeners(self) -> tuple[dict[NodeId, dict[str, int]], dict[NodeId, list[str]]]:
        """Of each controller by its registration, with their security protocols; of each voter."""
        log_dir = self.plain.log_dir(1)
        controllers = {
            each.controller_id: {end.name: end.security_protocol for end in each.end_points}
            for each in stored_records(log_dir)
            if isinstance(each, RegisterControllerRecord)
        }
        voters: dict[NodeId, list[str]] = {}
        for _, _, data in stored_batches(log_dir):
            for position, header in batches(data):
                for record in records(data, position, header) if header.is_control else ():
                    if record.key is not None and int.from_bytes(record.key[2:4], "big") == ControlType.KRAFT_VOTERS:
                        assert record.value is not None
                        found = decode(VotersRecord, record.value, 0)
                        voters = {each.voter_id: [at.name for at in each.endpoints] for each in found.voters}
        return controllers, voters


async def is_heard(address: str) -> bool:
    """Whether a quorum node answers there in the clear."""
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            await QuorumStub(channel).FindQuorum(FindQuorumRequest(), timeout=DEADLINE_MS / 1000)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            return False
        return True


@pytest.mark.parametrize("dynamic", [True, False], ids=["voters in the log", "voters in the settings"])
async def test_a_cluster_moves_from_clear_text_to_tls_while_topics_are_created(tmp_path: Path, dynamic: bool) -> None:
    issuer = authority(tmp_path)
    plane = control_plane(tmp_path / "plane", dynamic=dynamic, quorum_settings=PATIENT, with_gateways=dynamic)
    async with plane as cluster:
        plan: ClusterPlan = cluster.plan
        names = [*(each.name for each in plan.processes), CLIENTS]
        stores = {name: (issuer.issue(name, f"/O=cluster/CN={name}"), issuer.certificate) for name in names}
        moving = Moving(cluster, PlanTls(stores=stores))
        both = {"CONTROLLER": PLAINTEXT, SECURE: SSL}
        async with moving.writing("plain"):
            for process in moving.processes:
                moving.add_listener(process)
            await moving.restart_all()
            voters = {node_id: sorted(both) for node_id in VOTERS} if dynamic else {}
            await moving.has_listeners(both, voters)
            moving.move_clients()
            for process in plan.processes:
                moving.call_there(process)
            async with moving.writing("secure"):
                await moving.restart_all(*plan.gateways)
                if dynamic:
                    assert ErrorCode.NONE is await moving.at_a_gateway("at-a-gateway-by-tls")
        for broker_id in plan.brokers:
            await cluster.brokers[broker_id].shut_down()
            await cluster.join(broker_id)
        async with moving.writing("last"):
            for process in moving.processes:
                moving.drop_listener(process)
            await moving.restart_all()
            if dynamic:
                assert ErrorCode.TOPIC_AUTHORIZATION_FAILED is await moving.at_a_gateway("at-a-gateway-with-rights")
            voters = {node_id: [SECURE] for node_id in VOTERS} if dynamic else {}
            await moving.has_listeners({SECURE: SSL}, voters)

        written = {name for done in moving.written.values() for name in done}
        for door in VOTERS:
            assert set() == written - (await cluster.topics(at=door)).keys()
        await eventually(cluster.topics, lambda told: written <= told.keys())
        assert {False} == {await is_heard(process.address) for process in moving.processes}
