"""The observer's process: `python -m services.observer --config observer.properties`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc

from kraft.service.observer_pb2_grpc import add_ObserverServicer_to_server
from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server
from quorate.kafka_quorum.log import KafkaLog
from quorate.metadata.acls import AclOperation
from quorate.nouns import NOBODY, NodeId
from quorate.runtime.access.entry_guard import entry_guard_of
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.calls.transport_settings import PLAINTEXT, transport_of
from quorate.runtime.clients.client import Channels, open_channel
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.following.replica_readiness import ReplicaReadiness
from quorate.runtime.process import Close, ServiceProcess, Work, configured
from quorate.runtime.telemetry import cluster_metrics
from services.observer.config import ObserverConfig
from services.observer.database import open_store
from services.observer.examinations import Restartable
from services.observer.otlp import TRACE_SERVICE, TraceServicer
from services.observer.page.listener import PageListener
from services.observer.quorum_progress import AskLeader, of_kafka, of_nodes
from services.observer.relay import ObserverLogService
from services.observer.servicer import ObserverService
from services.observer.spans import SpanStore
from services.observer.state_keeper import StateKeeper

QUORUM: Final = "kraft.service.Quorum"
QUIET: Final = (
    *(
        f"kraft.service.Observer/{each}"
        for each in ("GetTrace", "ListTraces", "ListChanges", "Examine", "ExamineQuorum")
    ),
    QUORUM,
)
"""RPCs that create no spans: queries of traces, reads of the log, and what a page that is open asks again and again."""

IN_PARTS: Final = tuple(f"kraft.service.Observer/{each}" for each in ("DiffImages", "GetImage", "WatchImage"))
TAKEN_S: Final = 30.0
"""Within which time (s) a caller has to take each part of those: one that reads slower is cut off, with the reason."""

FLUSH_PART: Final = 0.2
"""How much of the time of a stop is for the spans that are not sent yet; calls under way have what they leave of it."""

OPERATIONS: Final = {
    "kraft.service.Observer/DescribeCluster": None,
    "kraft.service.Observer/DescribeTopicPartitions": None,
    "kraft.service.Observer/ExamineQuorum": AclOperation.DESCRIBE,
    "kraft.service.Observer/GetTrace": AclOperation.DESCRIBE,
    "kraft.service.Observer/ListTraces": AclOperation.DESCRIBE,
}
"""The right on the cluster that an RPC requires: None as its handler asks for the items, or anybody may know the
answer.

The others take CLUSTER_ACTION: spans come from the cluster's own processes, and the log is for its nodes.
"""


async def main(life: ServiceLife) -> None:
    """Follows the metadata log, takes spans, and answers reads at its listeners until asked to stop.

    With `observer.state.database.url` it also keeps that database; with the page's listener it serves browsers. Raises
    ConfigError, HelpAsked, CannotListen, and what a task raises.
    """
    config = configured(ObserverConfig)
    store = SpanStore(config.database)
    process = ServiceProcess(life, "observer", config, transport_of(config))
    transport = process.transport
    connect = partial(open_channel, transport=transport)
    reader = _reader(config, connect, replica_id=config.node_id)
    restartable = Restartable()
    replica = Replica(reader, SystemClock(), process.telemetry, restartable.hear)
    readiness = ReplicaReadiness(replica, SystemClock())
    guard = entry_guard_of(config, transport, replica, OPERATIONS)
    server = process.server(config, limits=_limits(config), quiet=QUIET, guard=guard)
    channels = Channels(connect)
    life.at_end(channels.close)
    service = ObserverService(
        replica,
        store,
        guard,
        state_url=config.state_database,
        ask_leader=_ask_leader(config, channels),
        led_ms=readiness.led_ms,
        restartable=restartable,
    )
    life.at_end(service.close)
    server.add("kraft.service.Observer", add_ObserverServicer_to_server, service)
    server.add(TRACE_SERVICE, trace_service_pb2_grpc.add_TraceServiceServicer_to_server, TraceServicer(store))
    if config.serves_log:
        assert isinstance(reader, LogReader), "ObserverConfig.problems"
        relay = ObserverLogService(reader, _servers(config), connect, node_id=config.node_id)  # type: ignore[abstract]  # the rest: UNIMPLEMENTED
        server.add(QUORUM, add_QuorumServicer_to_server, relay)
        life.at_end(relay.close)
    _watch(replica)
    page = _page(config, server, transport)
    closing: list[Close] = [reader.close, store.close] if isinstance(reader, LogReader) else [store.close]
    work: list[Work] = [replica.run, partial(readiness.run, server), partial(open_store, store, config.database)]
    if page is not None:
        life.at_end(page.close)
        work.append(page.open)
    if config.state_database is not None:
        # The leader lists this observer once, by the reader above.
        source = partial(_reader, config, connect, replica_id=NOBODY)
        keeper = StateKeeper(config.state_database, source, retention_ms=config.state_retention_ms)
        work.append(keeper.run)
        closing.append(keeper.close)
    stop = partial(_stop, process, server, page, graceful_s=config.graceful_s)
    await process.serve(server, *work, stop=stop, closing=closing)


def _limits(config: ObserverConfig) -> ServerLimits:
    return ServerLimits(
        calls=config.call_limits,
        taken_within_s=dict.fromkeys(IN_PARTS, TAKEN_S),
        connection_age_max_ms=config.connection_age_max_ms or None,
    )


async def _stop(process: ServiceProcess, server: Server, page: PageListener | None, *, graceful_s: float) -> None:
    # This observer may be where its own spans go, and takes none once the server stops.
    clock = asyncio.get_running_loop().time
    until = clock() + graceful_s
    if page is not None:
        await page.close()
    await process.telemetry.flush(graceful_s * FLUSH_PART)
    await server.stop(grace_s=max(0.0, until - clock()))


def _page(config: ObserverConfig, server: Server, transport: Transport) -> PageListener | None:
    """Returns the listener of the page, if there is to be one. Raises ConfigError."""
    if config.page is None:
        return None
    is_plain = config.security_protocol(config.page.name) == PLAINTEXT
    return PageListener(config.page, server, None if is_plain else transport)


def _watch(replica: Replica) -> None:
    """Binds the metrics of the cluster to the state of this process's replica."""
    cluster_metrics.watch(
        cluster_metrics.Applied(
            state=lambda: replica.state,
            applied=lambda: replica.applied,
            committed=lambda: replica.high_watermark,
            applied_at_ms=lambda: replica.applied_at_ms,
            now_ms=SystemClock().wall_ms,
        )
    )


def _reader(
    config: ObserverConfig, connect: Callable[[str], grpc.aio.Channel], *, replica_id: NodeId
) -> LogReader | KafkaLog:
    """Returns the reader of the log: of quorum nodes over gRPC, or of Kafka controllers over Kafka's own wire."""
    if config.kafka_controllers:
        return KafkaLog(config.kafka_controllers, config.client_properties, SystemClock(), cluster_id=config.cluster_id)
    return LogReader(
        _servers(config), connect, cluster_id=config.cluster_id, replica_id=replica_id, from_any=config.from_any
    )


def _ask_leader(config: ObserverConfig, channels: Channels) -> AskLeader:
    if config.kafka_controllers:
        return of_kafka(config.kafka_controllers, config.client_properties)
    return of_nodes(_servers(config), channels)


def _servers(config: ObserverConfig) -> list[str]:
    return [str(server) for server in config.quorum]


if __name__ == "__main__":
    raise SystemExit(run(main))
