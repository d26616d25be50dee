"""The gateway's process: `python -m services.gateway --config gateway.properties`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from quorate.listeners.opening import drain, listening_of, opened
from quorate.listeners.security import ListenerSecurity, security_of
from quorate.listeners.tls import watch_files
from quorate.nouns import Epoch, Offset
from quorate.runtime.access.claims import node_ids_of, warn_of_any
from quorate.runtime.calls.server import Server
from quorate.runtime.calls.transport_settings import PLAINTEXT
from quorate.runtime.clients.client import open_channel
from quorate.runtime.clients.multiplexed_channel import MultiplexedChannel
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.logging.logs import logger
from quorate.runtime.process import ServiceProcess, configured
from quorate.runtime.settings.setting_types import Endpoint
from quorate.runtime.telemetry.tracing import Telemetry
from services.gateway.apis import SERVED, Backend
from services.gateway.config import GatewayConfig
from services.gateway.guard import ClusterActionGuard
from services.gateway.handler import Gateway
from services.gateway.heartbeats import HeartbeatServices
from services.gateway.logins import ScramAtController
from services.gateway.metrics import watch
from services.gateway.reader_fetches import ReaderFetches
from services.gateway.reader_reports import reporting_to
from services.gateway.readiness import follow

log = logger(__name__)

OF_QUORUM_NODE: Final = ("sasl.mechanism.controller.protocol",)
"""Settings that the quorum node beside it reads in the same file, which may be its `controller.quorum.peer.config`."""


async def main(life: ServiceLife) -> None:
    """Serves Kafka's wire, once the controller beside it has answered, until asked to stop.

    Probes of its health are answered from the start. Raises ConfigError, HelpAsked, CannotListen.
    """
    config = configured(GatewayConfig, others=OF_QUORUM_NODE)
    security = security_of(config)
    process = ServiceProcess(life, "gateway", config, _transport(config))
    health = Server(telemetry=process.telemetry, on_fatal=life.fail, graceful_s=config.graceful_s)
    life.at_end(health.abort)
    health.listen_for_probes(config.health_listeners)
    if process.transport.is_plain:
        log.warning("speaks to the services in the clear", setting="grpc.security.protocol")
    warn_of_any(is_authorized=config.authorizer is not None, rules=config.node_rules)
    async with (
        # Its channels are closed once all tasks have ended, which may still call.
        _gateway(config, process.telemetry, process.transport) as (gateway, readers),
        process.running() as tasks,
    ):
        await health.start()
        of_listeners = [each.tls for each in security.values() if each.tls is not None]
        work = (gateway.features.run(), readers.run(), watch_files(of_listeners))
        running = [tasks.create_task(each) for each in work]
        opening = tasks.create_task(_open(config, security, gateway, health, life))
        await life.stopping()
        await health.stop()
        await asyncio.wait([opening], timeout=config.graceful_s + 1)
        for task in (opening, *running):
            task.cancel()


@asynccontextmanager
async def _gateway(
    config: GatewayConfig, telemetry: Telemetry, transport: Transport
) -> AsyncIterator[tuple[Gateway, ReaderFetches]]:
    addresses = {
        Backend.QUORUM: config.quorum,
        Backend.CONTROLLER: config.controller,
    }
    channels = {backend: _channel(address, transport) for backend, address in addresses.items()}
    of_heartbeats = [_channel(address, transport) for address in config.heartbeats]
    try:
        stubs = {backend: backend.stub(each) for backend, each in channels.items()}
        stubs[Backend.HEARTBEAT] = HeartbeatServices([Backend.HEARTBEAT.stub(each) for each in of_heartbeats])
        guard = ClusterActionGuard(stubs[Backend.CONTROLLER], config.super_users) if config.authorizer else None
        at = {backend: str(address) for backend, address in addresses.items()}
        at[Backend.HEARTBEAT] = ",".join(map(str, config.heartbeats))
        report = reporting_to(stubs[Backend.QUORUM])
        readers = ReaderFetches(partial(_log, config, transport), report, node_id=config.node_id)
        nodes = node_ids_of(config.node_rules)
        yield Gateway(stubs, config.gateways_at, telemetry, guard, nodes, at, readers), readers
    finally:
        for channel in (*channels.values(), *of_heartbeats):
            await channel.close()


def _channel(address: Endpoint, transport: Transport) -> MultiplexedChannel:
    return MultiplexedChannel(open_channel(str(address), transport))


def _log(
    config: GatewayConfig, transport: Transport, *, start: tuple[Offset, Epoch], on_change: Callable[[], None]
) -> LogReader:
    """Opens a reader of the log of the quorum node beside this gateway, leader or not."""
    return LogReader(
        [str(config.quorum)],
        partial(open_channel, transport=transport),
        from_any=True,
        start=start,
        on_change=on_change,
    )


def _transport(config: GatewayConfig) -> Transport:
    """Returns the transport of the calls to the services: TLS or clear text. Raises ConfigError for unfit files."""
    if config.grpc_protocol == PLAINTEXT:
        return PLAIN
    return Transport(keystore=config.grpc_keystore, truststore=config.grpc_truststore)


async def _open(
    config: GatewayConfig,
    security: Mapping[str, ListenerSecurity],
    gateway: Gateway,
    health: Server,
    life: ServiceLife,
) -> None:
    """Listens once the controller's features are known; is then ready while that is. Raises CannotListen."""
    await gateway.features.known.wait()
    describe, take = gateway.features.describe, gateway.at_once
    of_all = listening_of(config, gateway, served=SERVED, describe_versions=describe, take=take)
    async with opened(config, security, of_all, partial(ScramAtController, controller=gateway.controller)) as servers:
        watch(servers)
        following = asyncio.ensure_future(follow(str(config.controller), _transport(config), health))
        await life.stopping()
        following.cancel()
        await drain(servers, config.graceful_s)


if __name__ == "__main__":
    raise SystemExit(run(main))
