"""The broker's process: `python -m services.broker --config broker.properties`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.service.broker_pb2_grpc import add_BrokerServicer_to_server
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.kafka_quorum.log import KafkaLog
from quorate.listeners.security import ListenerSecurity, security_of
from quorate.listeners.tls import ListenerTls, watch_files
from quorate.metadata.features import supported_features
from quorate.nouns import ReplicaKey
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.random_uuid import random_uuid
from quorate.runtime.access.entry_guard import EntryGuard, authorizer_of
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.process import ServiceProcess, configured
from services.broker.callers import Callers
from services.broker.cluster import Cluster
from services.broker.config import FOR_FORMAT, BrokerConfig
from services.broker.controller_connection import ControllerConnection, InTurn
from services.broker.controllers import Controllers, OurControllers
from services.broker.directories import LogDirectories
from services.broker.driver import BrokerDriver, Parts
from services.broker.forwarding import Forwarding
from services.broker.grpc_service import NAME, OPEN, BrokerService
from services.broker.in_sync import InSync
from services.broker.kafka_controllers import KafkaControllers, LedBy
from services.broker.lifecycle import Lifecycle
from services.broker.logins import BrokerLogins
from services.broker.metrics import Watched, watch
from services.broker.news import News
from services.broker.peers import Peers, properties_of_controllers
from services.broker.reads import Reads
from services.broker.replicas import Replicas
from services.broker.tracing import ProduceTraces
from services.broker.wire import Asking, Wire


async def main(life: ServiceLife) -> None:
    """Runs a broker until SIGTERM: locks its log directories, listens at its listeners, registers, and takes part.

    At SIGTERM it asks for a controlled shutdown, closes its logs, and marks the log directories as cleanly stopped.
    Raises ConfigError, HelpAsked, CannotListen and Corrupt at the start, and what a task raises.
    """
    config = configured(BrokerConfig, others=FOR_FORMAT)
    security = security_of(config)
    to_brokers = Peers.of_brokers(config)
    above = Peers.of_controllers(config) if config.is_kafkas else Peers.of_gateways(config.gateway_client)
    directories = LogDirectories(config.log_dirs, config.node_id)
    try:
        await _serve(life, config, directories, _Wired(security, to_brokers, above))
    finally:
        directories.release()


GRPC_BYTES_MAX: Final = 16 << 20
"""The largest message of an RPC: of large batches Kafka's wire takes more."""


class _Wired(NamedTuple):
    """The security of each listener, and of calls to other brokers, and to gateways or Kafka's controllers."""

    security: Mapping[str, ListenerSecurity]
    to_brokers: Peers
    above: Peers

    @property
    def of_files(self) -> list[ListenerTls]:
        """The TLS settings whose certificate files may be replaced while the broker runs."""
        every = (*(each.tls for each in self.security.values()), self.to_brokers.tls, self.above.tls)
        return [each for each in every if each is not None]


async def _serve(life: ServiceLife, config: BrokerConfig, directories: LogDirectories, wired: _Wired) -> None:
    process = ServiceProcess(life, "broker", config, config.transport())
    telemetry = process.telemetry
    health = _health(process, life, config)
    control = _control(config, directories, wired.above, process)
    news = News()
    replica = Replica(control.log, SystemClock(), telemetry, news.hear)
    replicas = Replicas(config.node_id, config.replication, SystemClock(), life.fail)
    watch(Watched(replicas=replicas, state=lambda: replica.state))
    cluster = Cluster(
        config.node_id, directories.cluster_id, config.inter_broker, lambda: replica.state, replicas.table
    )
    in_sync = InSync(config.node_id, lambda: replica.state, replicas.table, health)
    asking, traces = _asking(config, replica, cluster, wired), ProduceTraces(telemetry)
    parts = Parts(
        directories=directories,
        replica=replica,
        news=news,
        replicas=replicas,
        cluster=cluster,
        wire=Wire(replica, replicas, cluster, directories, traces, control.forwarding, asking),
        controllers=control.controllers,
        peers=wired.to_brokers,
    )
    about = {"cluster_id": directories.cluster_id, "previous_broker_epoch": directories.previous_broker_epoch}
    async with process.running(control.close, parts.wire.close, **about) as tasks:
        async with parts.wire.serving(config, wired.security) as servers, _grpc(process, life, config, parts):
            lifecycle = Lifecycle(
                _registration(config, directories, {name: each.port for name, each in servers.items()}),
                control.controllers,
                interval_ms=config.heartbeat_interval_ms,
                published=lambda: replicas.applied,
                tell_ready=in_sync.set_ready,
            )
            driver = BrokerDriver(parts, lifecycle, timeout_ms=config.registration_timeout_ms)
            await health.start()
            running = tasks.create_task(driver.run())
            beside = [tasks.create_task(each) for each in (in_sync.run(), watch_files(wired.of_files))]
            await life.stopping()
            await driver.leave(within_s=config.graceful_s)
        for each in beside:
            each.cancel()
        running.cancel()
        await asyncio.wait([running])
        if running.cancelled():  # the group raises any other cause of its end
            await life.stopping()  # raises the error of a request since: then nothing is marked as clean
            driver.close()
        await health.stop()


@asynccontextmanager
async def _grpc(process: ServiceProcess, life: ServiceLife, config: BrokerConfig, parts: Parts) -> AsyncIterator[None]:
    """Serves kraft.service.Broker until the context exits, where `grpc.listeners` says it. Raises CannotListen."""
    if config.grpc_listens is None:
        yield
        return
    authorizer, transport = authorizer_of(config), process.transport
    guard = None if authorizer is None else EntryGuard(transport.principal, authorizer, parts.replica, OPEN)
    limits = ServerLimits(receive_bytes_max=GRPC_BYTES_MAX, send_bytes_max=GRPC_BYTES_MAX)
    server = Server(telemetry=process.telemetry, limits=limits, on_fatal=life.fail, transport=transport, guard=guard)
    life.at_end(server.abort)
    callers = Callers(authorizer, lambda: parts.replica.state.acls)
    server.add(NAME, add_BrokerServicer_to_server, BrokerService(parts.wire.asked, callers, transport.principal))
    server.listen(str(config.grpc_listens.endpoint))
    await server.start()
    await server.set_ready(True)
    yield
    await server.stop(grace_s=0.0)


def _health(process: ServiceProcess, life: ServiceLife, config: BrokerConfig) -> Server:
    """Returns what probes ask, not started yet. Raises CannotListen."""
    health = Server(telemetry=process.telemetry, on_fatal=life.fail, graceful_s=config.graceful_s)
    life.at_end(health.abort)
    health.listen_for_probes(config.health_listeners)
    return health


class _Control(NamedTuple):
    """The control plane as this broker has it: the metadata log, the controllers, and what is passed on to them."""

    log: LogReader | KafkaLog
    controllers: Controllers
    forwarding: Forwarding

    async def close(self) -> None:
        if isinstance(self.log, LogReader):
            await self.log.close()
        await self.controllers.close()
        await self.forwarding.close()


def _control(config: BrokerConfig, directories: LogDirectories, above: Peers, process: ServiceProcess) -> _Control:
    """Returns the services of ours, or Kafka's controllers; of either this broker is an observer under its id."""
    if config.is_kafkas:
        return _kafkas_control(config, directories, above)
    telemetry, transport = process.telemetry, process.transport
    log = LogReader(
        [str(each) for each in config.quorum],
        partial(open_channel, transport=transport),
        cluster_id=directories.cluster_id,
        replica_id=config.node_id,
    )
    controllers = Client([*map(str, config.controllers)], ControllerStub, telemetry=telemetry, transport=transport)
    heartbeats = Client([*map(str, config.heartbeats)], HeartbeatStub, transport=transport)
    gateways = ControllerConnection(InTurn(config.gateways), above, of="gateway") if config.gateways else None
    ours = OurControllers(controllers, heartbeats, heartbeat_interval_ms=config.heartbeat_interval_ms)
    return _Control(log, ours, Forwarding(gateways))


def _kafkas_control(config: BrokerConfig, directories: LogDirectories, above: Peers) -> _Control:
    timeout_ms = str(config.quorum_timeout_ms)
    log = KafkaLog(
        config.quorum,
        properties_of_controllers(config)
        | {
            "client.id": f"raft-client-{config.node_id}",
            "request.timeout.ms": timeout_ms,
            "socket.connection.setup.timeout.ms": timeout_ms,
        },
        SystemClock(),
        cluster_id=directories.cluster_id,
        replica=ReplicaKey(config.node_id, directories.all[0].id),
    )
    leader = LedBy(lambda: log.leader_at, config.quorum)
    controllers = KafkaControllers(leader, above, heartbeat_interval_ms=config.heartbeat_interval_ms)
    forwarding = Forwarding(ControllerConnection(leader, above, of="controller"), controllers.versions)
    return _Control(log, controllers, forwarding)


def _asking(config: BrokerConfig, replica: Replica, cluster: Cluster, wired: _Wired) -> Asking:
    """Returns who asks and is asked: the state that is applied says who they are, and what they may do."""
    return Asking(
        reads=Reads(
            config.node_id, replica, cluster, SystemClock(), TokenSettings(secret_key=config.token_secret_key or "")
        ),
        callers=Callers(authorizer_of(config), lambda: replica.state.acls),
        logins=BrokerLogins(replica, config.token_secret_key, SystemClock()),
        peers=wired.to_brokers,
    )


def _registration(
    config: BrokerConfig, directories: LogDirectories, ports: Mapping[str, int]
) -> BrokerRegistrationRequest:
    """Returns what this process says of itself: a new incarnation of the broker, with its directories and features."""
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=directories.cluster_id,
        incarnation_id=random_uuid(),
        listeners=tuple(_listener(config, name, port) for name, port in ports.items()),
        features=tuple(
            BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_features().items()
        ),
        rack=config.rack,
        log_dirs=tuple(each.id for each in directories.all),
        previous_broker_epoch=directories.previous_broker_epoch,
    )


def _listener(config: BrokerConfig, name: str, port: int) -> BrokerRegistrationRequest.Listener:
    at, protocol = config.reached_at(name, port), config.security_protocol(name)
    assert protocol is not None, name
    return BrokerRegistrationRequest.Listener(
        name=name,
        host=at.endpoint.host,
        port=at.endpoint.port,
        security_protocol=SECURITY_PROTOCOLS[protocol].id,
    )


if __name__ == "__main__":
    raise SystemExit(run(main))
