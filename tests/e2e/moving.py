"""A control plane on its way from clear text to TLS, or back, by rolling restarts; and who writes to it meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Final

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, Process, secured
from deploy.local.ports import free_ports
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.errors import ApiError, ErrorCode
from quorate.network.client import Connection, connect
from quorate.nouns import NodeId
from quorate.records import RegisterControllerRecord, VotersRecord
from quorate.runtime.requests.statuses import is_retriable
from quorate.wire.batch import ControlType, batches, records
from quorate.wire.codec import decode
from tests.e2e.calls import DEADLINE_MS, WITHIN_S, eventually
from tests.e2e.cluster import VOTERS, Cluster, stored_batches, stored_records
from tests.e2e.kafka_listeners import KafkaListeners
from tests.e2e.secured import PATIENCE
from tests.e2e.writer import caught_up
from tests.network.certificates import Authority

CLEAR, SECURE = "CONTROLLER", "SECURE"
"""The gateways' listeners. The other services' have their own name in the clear, and the second by TLS."""
PLAINTEXT, SSL = 0, 1
"""The security protocols in the log."""
MORE: Final = 3
"""So many writes of each writer between two steps."""
PAUSE_S: Final = 0.05
BETWEEN_S: Final = 0.5
"""Between two writes of one writer: up to twelve write at once, on a machine that also starts processes."""
SHOWN: Final = (
    r"RULE:^CN=(?:quorum|controller|observer)-([0-9]+),O=cluster$/$1/,"
    r"RULE:^CN=(?:heartbeat-1|gateway-[0-9]|clients),O=cluster$/*/"
)
"""`principal.node.id.mapping.rules` for the names of the certificates here."""


class Stage(IntEnum):
    """What the settings of a process are, from the first to the last; the way back goes from the last to the first."""

    IN_THE_CLEAR = 0
    BOTH = 1
    """A listener with TLS beside the one in the clear, at which all call each other."""
    CALLS_BY_TLS = 2
    """Both listeners, and all call each other at the one with TLS."""
    BY_TLS = 3
    """The listener with TLS alone; and now that each caller has a certificate, rights are asked for."""


class Moving:
    """A control plane of `issuer`'s certificates, and what was acknowledged to those who write to it."""

    def __init__(self, cluster: Cluster, issuer: Authority) -> None:
        self.cluster = cluster
        self.plain = cluster.plan
        self.written: dict[str, list[str]] = {}
        self._issuer = issuer
        names = [*(each.name for each in self.plain.processes), CLIENTS]
        stores = {name: (issuer.issue(name, f"/O=cluster/CN={name}"), issuer.certificate) for name in names}
        self._super_users = ";".join(f"User:CN={name},O=cluster" for name in names)
        self._kafka = KafkaListeners.beside(self.plain, {CLEAR: "PLAINTEXT", SECURE: "SSL"})
        self._before = {each.name: dict(each.settings) for each in self.plain.processes}
        own = [each for each in self.plain.processes if each.service != "gateway"]
        ports = dict(zip((each.name for each in own), free_ports(len(own)), strict=True))
        of_tls = secured(self.plain, PlanTls(stores=stores))  # its processes have settings of their own
        after = {each.name: replace(each, port=ports.get(each.name, each.port)) for each in of_tls.processes}
        self._after = after
        self._addresses = {each.address: after[each.name].address for each in own}
        self.secure: ClusterPlan = replace(
            of_tls,
            quorum=tuple(after[each.name] for each in self.plain.quorum),
            controllers=tuple(after[each.name] for each in self.plain.controllers),
            placer=after[self.plain.placer.name],
            heartbeat=after[self.plain.heartbeat.name],
            observer=after[self.plain.observer.name],
        )

    # The settings of each stage.

    def settings_at(self, process: Process, stage: Stage) -> dict[str, str]:
        """What a process has in its file at a stage."""
        of_gateway = process.service == "gateway"
        settings = dict(self._before[process.name])
        if stage >= Stage.BOTH:
            settings |= self._gateway_both(process) if of_gateway else self._both(process)
        if stage >= Stage.CALLS_BY_TLS:
            settings |= self._calls_by_tls(process, settings)
        if stage >= Stage.BY_TLS:
            settings |= {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": self._super_users}
            settings |= self._gateway_alone(process) if of_gateway else self._alone(process)
            if process.service not in ("placer", "observer"):
                settings["principal.node.id.mapping.rules"] = SHOWN
        return settings

    def _both(self, process: Process) -> dict[str, str]:
        after, own = self._after[process.name], self._own_listener(process)
        files = {key: value for key, value in after.settings.items() if key.startswith("ssl.")}
        return files | {
            "listeners": f"{self._before[process.name]['listeners']},{SECURE}://{after.address}",
            "listener.security.protocol.map": f"{own}:PLAINTEXT,{SECURE}:SSL",
        }

    def _gateway_both(self, gateway: Process) -> dict[str, str]:
        """As for a Kafka controller: what is of the listener with TLS has its name before it."""
        of_grpc = self._after[gateway.name].settings
        prefix = f"listener.name.{SECURE.lower()}."
        stores = ("ssl.keystore.location", "ssl.truststore.location")
        files = {f"{prefix}{key}": of_grpc[f"grpc.{key}"] for key in stores}
        return files | {
            f"{prefix}ssl.client.auth": "required",
            **self._kafka.settings(int(gateway.settings["node.id"]), CLEAR, SECURE),
        }

    def _calls_by_tls(self, process: Process, settings: dict[str, str]) -> dict[str, str]:
        changed = {}
        if process.service == "gateway":
            after = self._after[process.name].settings
            changed = {key: value for key, value in after.items() if key.startswith("grpc.")}
        else:
            changed["controller.listener.names"] = f"{SECURE},{self._own_listener(process)}"
        for key, value in settings.items():
            if key.startswith("controller.quorum.") or key.endswith((".endpoint", ".endpoints")):
                for plain, secure in self._addresses.items():
                    value = value.replace(plain, secure)
                changed[key] = value
        return changed

    def _alone(self, process: Process) -> dict[str, str]:
        return {
            "listeners": f"{SECURE}://{self._after[process.name].address}",
            "listener.security.protocol.map": f"{SECURE}:SSL",
            "controller.listener.names": SECURE,
        }

    def _gateway_alone(self, gateway: Process) -> dict[str, str]:
        return self._kafka.settings(int(gateway.settings["node.id"]), SECURE)

    def _own_listener(self, process: Process) -> str:
        return self._before[process.name]["listeners"].partition("://")[0]

    # The rolling restart.

    async def restart_all(self, stage: Stage) -> None:
        """Node after node, each with its controller and gateway, the leader in its turn; then the other services."""
        plan = self.plain
        for process in plan.processes:
            settings = self.settings_at(process, stage)
            process.settings.clear()
            process.settings.update(settings)
        gateways = plan.gateways or [None] * len(plan.quorum)
        nodes = zip(gateways, plan.controllers, plan.quorum, strict=True)
        for at_once in (*nodes, (plan.placer, plan.heartbeat, plan.observer)):
            processes = [process for process in at_once if process is not None]
            for process in processes:
                await self.cluster.kill(process, signal.SIGTERM)
            for process in reversed(processes):
                await self.cluster.running.spawn(process)
            await self.cluster.running.ready(self._asked(processes))
            await caught_up(self.cluster)

    def _asked(self, processes: Iterable[Process]) -> list[Process]:
        """The processes at the addresses at which their health is asked for."""
        names = {each.name for each in processes}
        return [each for each in self.cluster.plan.processes if each.name in names]

    def move_clients(self, plan: ClusterPlan) -> None:
        """Calls of the tests, and spans, go to the listeners of this plan from now on, and brokers that start."""
        self.cluster.plan = self.cluster.running.plan = plan

    async def move_brokers(self) -> None:
        """One after the other; meanwhile there are too few for a topic's three replicas, so nobody writes."""
        for broker_id in self.plain.brokers:
            await self.cluster.brokers[broker_id].shut_down()
            await self.cluster.join(broker_id)

    # The writes meanwhile.

    @asynccontextmanager
    async def writing(self, kind: str) -> AsyncIterator[None]:
        """Writes by clients of the present plan, for the length of the block.

        One writes at each controller, and one at each gateway, at the listener that speaks as the plan does. Each topic
        is asked for until it is there, as Kafka's clients do it: again after what is retriable, and after nothing else.
        """
        cluster = Cluster(self.cluster.plan)
        listener = CLEAR if self.cluster.plan.transport.is_plain else SECURE
        async with asyncio.TaskGroup() as tasks:
            writers = [tasks.create_task(self._write(f"{kind}-{door}", _at(cluster, door))) for door in VOTERS]
            wires = [KafkaClient(self, listener, door) for door in VOTERS if self.plain.gateways]
            writers += [tasks.create_task(self._write(f"{kind}-wire-{each.first}", each.create)) for each in wires]
            await self.more(kind)
            yield
            await self.more(kind)
            for writer in writers:
                writer.cancel()
        for channel in (cluster.channel(each) for each in cluster.plan.controllers):
            await channel.close()
        for wire in wires:
            await wire.close()
        await cluster.admin.close()

    async def _write(self, prefix: str, create: Callable[[str], Awaitable[ErrorCode]]) -> None:
        """Until cancelled."""
        written = self.written.setdefault(prefix, [])
        while True:
            name = f"{prefix}-{len(written)}"
            code = await create(name)
            assert ErrorCode.NONE is code, (name, code)
            written.append(name)
            await asyncio.sleep(BETWEEN_S)

    async def more(self, kind: str) -> None:
        """Until some more topics are there by each of these writers."""
        before = {prefix: len(names) for prefix, names in self.written.items() if prefix.startswith(f"{kind}-")}
        count = len(VOTERS) * (2 if self.plain.gateways else 1)

        async def those() -> list[int]:
            return [
                len(names) - before.get(prefix, 0)
                for prefix, names in self.written.items()
                if prefix.startswith(f"{kind}-")
            ]

        await eventually(those, lambda found: len(found) == count and min(found) >= MORE)

    # At the gateways.

    async def connected(self, listener: str, node_id: NodeId, *, shown: str | None = CLIENTS) -> Connection:
        """A client of Kafka's wire at a gateway; by TLS it shows the certificate of this name. Raises OSError."""
        keystore = None if shown is None else self._issuer.directory / f"{shown}.pem"
        tls = self._issuer.client(keystore) if listener == SECURE else None
        return await connect(*self._kafka.addresses[listener][node_id], timeouts=PATIENCE, tls=tls)

    async def is_heard(self, listener: str) -> set[NodeId]:
        """The nodes whose gateways answer at this listener."""
        heard = set()
        for node_id in self._kafka.node_ids:
            try:
                async with await self.connected(listener, node_id):
                    heard.add(node_id)
            except OSError:
                continue
        return heard

    # What is in the log.

    async def has_listeners(self, controllers: dict[str, int], *, in_the_log: bool) -> None:
        """Waits until the log has these for each controller, and for the voters if they are in the log at all."""
        voters = {node_id: sorted(controllers) for node_id in VOTERS} if in_the_log else {}
        await eventually(self.listeners, lambda found: found == (dict.fromkeys(VOTERS, controllers), voters))

    async def listeners(self) -> tuple[dict[NodeId, dict[str, int]], dict[NodeId, list[str]]]:
        """Of each controller by its registration, with their security protocols; of each voter."""
        log_dir = self.plain.log_dir(1)
        controllers = {
            each.controller_id: {end.name: end.security_protocol for end in each.end_points}
            for each in stored_records(log_dir)
            if isinstance(each, RegisterControllerRecord)
        }
        return controllers, voters_in(log_dir)


class KafkaClient:
    """Asks the gateways of `moving` over Kafka's wire, `first` before the others; the next one where one is gone."""

    def __init__(self, moving: Moving, listener: str, first: NodeId) -> None:
        self.first = first
        self._moving = moving
        self._listener = listener
        self._next = VOTERS.index(first)
        self._connection: Connection | None = None

    async def create(self, name: str) -> ErrorCode:
        """Returns how it ended; a topic that an earlier attempt has made, whose answer was lost, counts as made."""
        topic = CreateTopicsRequest.CreatableTopic(name, 1, 3)
        is_retried = False
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    if self._connection is None:
                        node_id = VOTERS[self._next % len(VOTERS)]
                        self._connection = await self._moving.connected(self._listener, node_id)
                    request = CreateTopicsRequest((topic,), DEADLINE_MS)
                    answer = await self._connection.ask_for(CreateTopicsResponse, request)
                    code = ErrorCode(answer.topics[0].error_code)
                except OSError:  # the connection has ended, or nobody listens
                    await self.close()
                    self._next += 1
                    code = ErrorCode.NETWORK_EXCEPTION
                if is_retried and code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    return ErrorCode.NONE
                if not is_retriable(ApiError(code, "")):
                    return code
                is_retried = True
                await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        """Ends the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()
        self._connection = None


def _at(cluster: Cluster, door: NodeId) -> Callable[[str], Awaitable[ErrorCode]]:
    async def create(name: str) -> ErrorCode:
        answer = await cluster.create(name, at=door)
        return ErrorCode(answer.topics[0].error_code)

    return create


def voters_in(log_dir: Path) -> dict[NodeId, list[str]]:
    """The names of each voter's listeners in the last voters record of a log; empty without one."""
    voters: dict[NodeId, list[str]] = {}
    for _, _, data in stored_batches(log_dir):
        for position, header in batches(data):
            for record in records(data, position, header) if header.is_control else ():
                if record.key is not None and int.from_bytes(record.key[2:4], "big") == ControlType.KRAFT_VOTERS:
                    assert record.value is not None
                    found = decode(VotersRecord, record.value, 0)
                    voters = {each.voter_id: sorted(at.name for at in each.endpoints) for each in found.voters}
    return voters
