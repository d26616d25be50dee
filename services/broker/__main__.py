"""The broker's process: `python -m services.broker --config broker.properties`."""

from __future__ import annotations

import asyncio
from functools import partial

from kraft.api.broker_registration_pb2 import BrokerRegistrationRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.metadata.features import supported_features
from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.client import Client, open_channel
from quorate.runtime.clock import SystemClock
from quorate.runtime.log_reader import LogReader
from quorate.runtime.loop import ServiceLife, run
from quorate.runtime.process import ServiceProcess, configured
from quorate.runtime.replica import Replica
from quorate.runtime.server import Server
from services.broker.cluster import Cluster
from services.broker.config import FOR_FORMAT, BrokerConfig
from services.broker.directories import LogDirectories
from services.broker.driver import BrokerDriver, Parts
from services.broker.forwarding import Forwarding
from services.broker.lifecycle import Lifecycle
from services.broker.news import News
from services.broker.reads import Reads
from services.broker.replicas import Replicas
from services.broker.tracing import ProduceTraces
from services.broker.wire import Wire


async def main(life: ServiceLife) -> None:
    """Locks the log directories, and takes part in the cluster until asked to stop."""
    config = configured(BrokerConfig, others=FOR_FORMAT)
    directories = LogDirectories(config.log_dirs, config.node_id)
    try:
        await _serve(life, config, directories)
    finally:
        directories.release()


async def _serve(life: ServiceLife, config: BrokerConfig, directories: LogDirectories) -> None:
    process = ServiceProcess(life, "broker", config, config.transport())
    telemetry, transport = process.telemetry, process.transport
    health = Server(telemetry=telemetry, on_fatal=life.fail, graceful_s=config.graceful_s)
    life.at_end(health.abort)
    health.listen_for_probes(config.health_listeners)
    reader = LogReader(
        [str(each) for each in config.quorum],
        partial(open_channel, transport=transport),
        cluster_id=directories.cluster_id,
        replica_id=config.node_id,
    )
    news = News()
    replica = Replica(reader, SystemClock(), telemetry, news.hear)
    replicas = Replicas(config.node_id, config.replication, SystemClock(), life.fail)
    cluster = Cluster(
        config.node_id, directories.cluster_id, config.listens.name, lambda: replica.state, replicas.table
    )
    controllers = Client([*map(str, config.controllers)], ControllerStub, telemetry=telemetry, transport=transport)
    heartbeats = Client([*map(str, config.heartbeats)], HeartbeatStub, transport=transport)
    forwarding = Forwarding(config.gateways)
    parts = Parts(
        directories=directories,
        replica=replica,
        news=news,
        replicas=replicas,
        cluster=cluster,
        wire=Wire(
            replica,
            replicas,
            cluster,
            directories,
            ProduceTraces(telemetry),
            forwarding,
            Reads(config.node_id, replica, cluster, SystemClock()),
        ),
        controllers=controllers,
    )
    about = {"cluster_id": directories.cluster_id, "previous_broker_epoch": directories.previous_broker_epoch}
    async with process.running(
        reader.close, controllers.close, heartbeats.close, forwarding.close, parts.wire.close, **about
    ) as tasks:
        async with parts.wire.serving(config.listens) as wire:
            lifecycle = Lifecycle(
                _registration(config, directories, wire.port),
                controllers,
                heartbeats,
                interval_ms=config.heartbeat_interval_ms,
                published=lambda: replica.applied,
                tell_ready=health.set_ready,
            )
            driver = BrokerDriver(parts, lifecycle, timeout_ms=config.registration_timeout_ms)
            await health.start()
            running = tasks.create_task(driver.run())
            await life.stopping()
            await driver.leave(within_s=config.graceful_s)
        running.cancel()
        await asyncio.wait([running])
        if running.cancelled():  # what else has ended it is told by the group
            driver.close()
        await health.stop()


def _registration(config: BrokerConfig, directories: LogDirectories, port: int) -> BrokerRegistrationRequest:
    """Returns what this process says of itself: a new incarnation of the broker, with its directories and features."""
    at = config.reached_at(port)
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=directories.cluster_id,
        incarnation_id=uuid_text(random_uuid()),
        listeners=[BrokerRegistrationRequest.Listener(name=at.name, host=at.endpoint.host, port=at.endpoint.port)],
        features=[
            BrokerRegistrationRequest.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_features().items()
        ],
        rack=config.rack,
        log_dirs=[uuid_text(each.id) for each in directories.all],
        previous_broker_epoch=directories.previous_broker_epoch,
    )


if __name__ == "__main__":
    raise SystemExit(run(main))
