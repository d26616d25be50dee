"""The quorum node's process: `python -m services.quorum --config quorum.properties`."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable
from functools import partial
from typing import Final

from kraft.service.quorum_pb2_grpc import add_QuorumServicer_to_server, add_RaftClientServicer_to_server
from quorate.metadata.scram_lost import described
from quorate.nouns import ZERO_UUID, NodeId, ReplicaKey
from quorate.properties import parse_properties
from quorate.raft.core import Raft
from quorate.raft.log import LogView
from quorate.raft.voters import ListenerEndpoint as RaftEndpoint
from quorate.raft.voters import VoterSet
from quorate.runtime.access.claims import claims_of, warn_of_any
from quorate.runtime.access.guard import guard_of
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.logging.logs import logger
from quorate.runtime.process import ServiceProcess, configured
from quorate.runtime.settings.config import ConfigError
from quorate.storage.failpoints import set_from_environment
from quorate.storage.lock import DirectoryLock, Locked
from quorate.storage.meta_properties import MetaProperties, check_owner
from services.quorum.batches import in_order
from services.quorum.cleaner import Cleaner
from services.quorum.config import QuorumConfig
from services.quorum.controller_presence import ControllerPresence
from services.quorum.disk import Disk
from services.quorum.driver import QuorumDriver
from services.quorum.endpoints import NodeEndpoints, static_voters
from services.quorum.handing_over import HandingOver
from services.quorum.kafka_wire import KafkaWire
from services.quorum.listeners import takes_login
from services.quorum.metrics import watch
from services.quorum.peer_config import peer_config
from services.quorum.peer_wire import PeerWire
from services.quorum.peers import MARGIN_S, Peers
from services.quorum.reachability import Reachability
from services.quorum.readiness import Readiness
from services.quorum.readings import MeasuredNode
from services.quorum.room import Room
from services.quorum.servicer import PeerServicer, RaftClientService
from services.quorum.tracing import AppendTracer

log = logger(__name__)

RECEIVE_BYTES_MAX: Final = 16 << 20
"""Largest gRPC message that is received: a batch of 8 MiB, and room for the rest of the message."""
DRAIN_S: Final = 0.2
STREAMS_END_S: Final = 1.0
"""How long (s) streams go on once calls are refused: other nodes and the controller keep theirs open."""
QUIET: Final = ("kraft.service.Quorum", "kraft.service.RaftClient")
"""Services whose calls begin no traces: they never end, and a trace begins at a client's request."""


async def main(life: ServiceLife) -> None:
    """Locks and opens the log directory, and serves until asked to stop.

    Raises ConfigError, also if another process holds the directory; HelpAsked; CannotListen; OSError; Corrupt for a
    directory that is not formatted, another node's, or damaged beyond a salvage.
    """
    config = configured(QuorumConfig)
    _require_ports(config)
    set_from_environment(os.environ)
    meta = check_owner(config.metadata_log_dir, node_id=config.node_id)
    lock = DirectoryLock(config.metadata_log_dir)
    try:
        lock.acquire()
    except Locked as other:
        raise ConfigError([f"metadata.log.dir = {config.metadata_log_dir}: {other}"]) from None
    try:
        await serve(life, config, meta)
    finally:
        lock.release()


def _require_ports(config: QuorumConfig) -> None:
    """Raises ConfigError for a listener whose port the system would choose: no other node would find this one."""
    rule = "must have a port from 1 to 65535, or one in advertised.listeners: others reach this node by it"
    if nowhere := [f"listeners = {each}: {rule}" for each in config.announced if not each.endpoint.port]:
        raise ConfigError(nowhere)


async def serve(life: ServiceLife, config: QuorumConfig, meta: MetaProperties) -> None:
    """Opens the log and runs the node until it is asked to stop, then hands over its leadership and closes the log.

    The caller holds the directory's lock; `meta` is of its meta.properties. Raises ConfigError, CannotListen, OSError,
    Corrupt; ExceptionGroup for an error of the running node. After an error the log is not closed.
    """
    clock, process = SystemClock(), ServiceProcess(life, "quorum", config, transport_of(config))
    kafka = _kafka_wires(config)
    server = _server(process, config)  # before the disk: a start that fails here has changed nothing
    static = static_voters(config.voters)
    disk = _open(config, static)
    view = disk.view()
    endpoints = NodeEndpoints(config.voters, config.bootstrap_servers, view.voters, config.listener_protocols)
    core = _core(config, meta, disk, view, bootstrap=endpoints.bootstrap, now_ms=clock.monotonic_ms())
    tracer = AppendTracer(process.telemetry, node_id=config.node_id)
    driver = QuorumDriver(core, disk, clock, tracer, append_linger_ms=config.append_linger_ms)
    watch(
        MeasuredNode(
            core=core, disk=disk, clock=clock, counts=driver.recorder.counts, static=static, endpoints=endpoints
        )
    )
    handing_over = HandingOver(driver, late_ms=config.election_timeout_ms, patience_ms=config.fetch_timeout_ms)
    presence = ControllerPresence(
        driver,
        absence_timeout_ms=config.absence_timeout_ms,
        presence_timeout_ms=config.presence_timeout_ms,
        end=handing_over.end,
    )
    client = RaftClientService(driver, presence, end=handing_over.end)
    peer = _peer(config, meta, driver, endpoints, handing_over, process.transport)
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, client)
    server.multiplex()
    warn_of_any(is_authorized=config.authorizer is not None, rules=config.node_rules)
    about = {"leo": view.leo, "start": view.start, "cluster_id": meta.cluster_id}
    async with process.running(partial(asyncio.to_thread, disk.close), **about) as tasks:
        peers = _peers(
            config, driver, endpoints, tasks, process.transport, kafka, Reachability(core.node, _listeners(config))
        )
        await server.start()
        driver.start(peers, life.fail)
        room = Room(disk, clock, least_bytes=config.free_bytes_min)
        readiness = Readiness(core, clock, lag_max_ms=config.fetch_timeout_ms, joins=config.auto_join, room=room)
        work = (presence.run(), Cleaner(driver, config.cleaning).run(), readiness.run(server))
        running = [tasks.create_task(each) for each in work]
        await life.stopping()
        for task in running:
            task.cancel()
        await _stop(core, handing_over, server, driver, graceful_s=config.graceful_s)
        await peers.close()
        await peer.close()


def _server(process: ServiceProcess, config: QuorumConfig) -> Server:
    return process.server(
        config,
        limits=ServerLimits(receive_bytes_max=RECEIVE_BYTES_MAX, calls=config.call_limits),
        quiet=QUIET,
        guard=guard_of(config, process.transport),
        claims=claims_of(config, process.transport, node_id=config.node_id),
    )


def _peer(
    config: QuorumConfig,
    meta: MetaProperties,
    driver: QuorumDriver,
    endpoints: NodeEndpoints,
    handing_over: HandingOver,
    transport: Transport,
) -> PeerServicer:
    return PeerServicer(
        driver,
        endpoints,
        cluster_id=meta.cluster_id,
        node_id=config.node_id,
        handing_over=handing_over,
        transport=transport,
    )


def _peers(
    config: QuorumConfig,
    driver: QuorumDriver,
    endpoints: NodeEndpoints,
    tasks: asyncio.TaskGroup,
    transport: Transport,
    kafka: dict[str, PeerWire],
    reachability: Reachability,
) -> Peers:
    return Peers(
        endpoints,
        tasks,
        heard=driver.hear,
        failed=driver.fail,
        lost=driver.lose,
        refused=driver.recorder.refused,
        request_timeout_ms=config.request_timeout_ms,
        listeners=_listeners(config),
        transport=transport,
        kafka=kafka,
        reachability=reachability,
    )


def _open(config: QuorumConfig, static: VoterSet) -> Disk:
    """Opens the directory and logs all damage that was found. Raises Corrupt."""
    disk = Disk(
        config.metadata_log_dir,
        static=static,
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        recovers=True,
    )
    for damage in disk.damaged:
        log.warning("put a damaged checkpoint aside", reason=str(damage))
    for each in disk.salvaged:
        log.warning("put damage aside", reason=str(each.damage), kept=[str(path) for path in each.aside])
    disk.levels.warn()
    for doubt in disk.doubts:
        log.warning("the directory is not as this node left it", reason=doubt)
    if disk.damaged_to is not None:
        log.warning("does not vote before the log is back", offset=disk.damaged_to.offset, epoch=disk.damaged_to.epoch)
    if disk.lost_credentials:
        log.warning(
            "the latest checkpoint lacks SCRAM credentials that the log has (a defect of Kafka's, see the README)",
            checkpoint=max(disk.view().snapshots).offset,
            users=described(disk.lost_credentials),
        )
    if disk.log.torn is not None:
        log.warning(
            "cut a torn tail", file=str(disk.log.torn.path), offset=disk.log.torn.offset, size=disk.log.torn.size
        )
    return disk


def _core(
    config: QuorumConfig, meta: MetaProperties, disk: Disk, view: LogView, *, bootstrap: Iterable[NodeId], now_ms: int
) -> Raft:
    return Raft(
        node=ReplicaKey(config.node_id, meta.directory_id or ZERO_UUID),
        cluster_id=meta.cluster_id,
        log=view,
        election=disk.election(),
        random=random.Random(),
        now_ms=now_ms,
        settings=config.raft,
        bootstrap=bootstrap,
        recover_to=disk.damaged_to,
        endpoints=_listeners(config),
    )


def _listeners(config: QuorumConfig) -> tuple[RaftEndpoint, ...]:
    """Returns the listeners by which other nodes reach this one."""
    return in_order(RaftEndpoint(each.name, each.endpoint.host, each.endpoint.port) for each in config.announced)


def _kafka_wires(config: QuorumConfig) -> dict[str, PeerWire]:
    """Returns what calls peers by Kafka's protocol, for each of Kafka's security protocols that a listener speaks.

    There is none for a protocol with logins if `controller.quorum.peer.config` is not set: such a listener is announced
    for brokers, and no peer can be called there. Raises ConfigError for properties of that file that are missing or
    wrong.
    """
    timeout_ms = config.request_timeout_ms + int(MARGIN_S * 1000)
    name_of = config.listener_protocols.name_of
    try:
        properties = {} if config.peer_properties is None else parse_properties(config.peer_properties.read_text())
        return {
            each: KafkaWire(peer_config(properties, listener=name_of(each), protocol=each), timeout_ms=timeout_ms)
            for each in sorted({protocol for _, protocol in config.kafka_protocols})
            if config.peer_properties is not None or not takes_login(each)
        }
    except (OSError, ValueError) as problem:
        raise ConfigError([f"controller.quorum.peer.config = {config.peer_properties}: {problem}"]) from None


async def _stop(
    core: Raft, handing_over: HandingOver, server: Server, driver: QuorumDriver, *, graceful_s: float
) -> None:
    """Ends the leadership, so that a follower takes over before this node is gone, then the calls and the driver."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + graceful_s
    handing_over.end(core.role.epoch)
    await handing_over.released(graceful_s)
    left_s = max(deadline - loop.time(), min(STREAMS_END_S, graceful_s))
    await server.stop(drain_s=DRAIN_S, grace_s=left_s, streams_s=STREAMS_END_S)
    driver.stop()
    await driver.stopped()


if __name__ == "__main__":
    raise SystemExit(run(main))
