"""The plan of a local control plane: its processes with their ports and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

from deploy.local.ports import HOST, free_ports
from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.connections.transport import PLAIN, Transport

RELEASE: Final = "4.3-IV0"
"""The newest metadata.version whose release is published, so that Kafka's tools can read the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHost:
    """A place to run processes: the address to listen on, and a command prefix that starts a process there."""

    host: str = HOST
    enter: tuple[str, ...] = ()


HERE: Final = ProcessHost()
STOP_MS: Final = "2000"
"""`shutdown.graceful.timeout.ms`: a leader whose voters were killed waits so long for their answers, as in Kafka."""
OWN_LISTENER: Final = "QUORUM"
"""The listener for gRPC of a quorum node that announces its gateway's, which has the name that Kafka's nodes know."""
CONTROLLERS_LISTENER: Final = "ADMIN"
"""The listener for gRPC of a controller that registers its gateway's (KIP-919): Kafka's controllers tell of it."""
PAGE: Final = "observer.page.listener"
CLIENTS: Final = "clients"
"""The name under which a plan's own clients have their certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTls:
    """The PEM files of a plan: key store and trust store of each process by its name, and of the plan's `CLIENTS`."""

    stores: Mapping[str, tuple[Path, Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One service process: module `services.<service>`, with its settings in a properties file."""

    service: str
    name: str
    port: int
    settings: dict[str, str]
    place: ProcessHost = HERE

    @property
    def address(self) -> str:
        """The `host:port` on which the process answers gRPC."""
        return f"{self.place.host}:{self.port}"

    @property
    def kafka_address(self) -> str:
        """The `host:port` of the first listener, which on a gateway is the one for Kafka's own tools."""
        return self.settings["listeners"].split(",")[0].partition("://")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """The processes of one control plane, with their settings; `directory` holds all their files.

    `directory_ids` has the directory id of each first voter by node id; empty for static voters (KIP-853). `release` is
    what a new cluster is formatted with: a release, or a metadata.version.
    """

    directory: Path
    cluster_id: str
    quorum: tuple[Process, ...]
    controllers: tuple[Process, ...]
    placer: Process
    heartbeat: Process
    observer: Process
    gateways: tuple[Process, ...] = ()
    brokers: tuple[int, ...] = (101, 102, 103)
    racks: dict[int, str] = field(default_factory=lambda: {101: "a", 102: "b", 103: "c"})
    directory_ids: dict[int, str] = field(default_factory=dict)
    release: str = RELEASE
    users: tuple[str, ...] = ()
    """Users that a new cluster is formatted with, as `storage format --add-scram` has them."""
    transport: Transport = PLAIN
    """How the plan's clients speak to its processes."""
    is_observed: bool = True
    """Whether the observer runs. Without it nothing is traced."""

    @property
    def processes(self) -> tuple[Process, ...]:
        """All processes, in the order in which they are started."""
        observers = (self.observer,) if self.is_observed else ()
        return (*observers, *self.quorum, *self.controllers, self.placer, self.heartbeat, *self.gateways)

    @property
    def bootstrap_controllers(self) -> str:
        """Where Kafka's own tools reach the gateways' first listeners, as the value of `--bootstrap-controller`."""
        return ",".join(each.kafka_address for each in self.gateways)

    @property
    def initial_controllers(self) -> str:
        """The first voters as the value of `storage format --initial-controllers`."""
        return ",".join(
            f"{each.settings['node.id']}@{each.address}:{self.directory_ids[int(each.settings['node.id'])]}"
            for each in self.quorum
        )

    def transport_to(self, process: Process) -> Transport:
        """Returns how a client speaks to a process: of gateways and brokers it asks the health, in the clear."""
        return PLAIN if process.service in ("gateway", "broker") else self.transport

    @property
    def traces(self) -> str:
        """Where the processes send their spans, as OpenTelemetry has it; empty without an observer."""
        scheme = "http" if self.transport.is_plain else "https"
        return f"{scheme}://{self.observer.address}" if self.is_observed else ""

    def log_dir(self, node_id: int) -> Path:
        """Returns the log directory of a quorum node."""
        return self.directory / f"node-{node_id}"


def make_plan(
    directory: Path,
    *,
    voters: int = 3,
    session_timeout_ms: int = 9_000,
    home: ProcessHost = HERE,
    nodes_at: Mapping[int, ProcessHost] | None = None,
    dynamic: bool = False,
    cluster_id: str | None = None,
    with_gateways: bool = False,
) -> ClusterPlan:
    """Makes a plan on free ports.

    A quorum node and its controller run at `nodes_at[node_id]`, other processes at `home`. The voter set is in the log
    if `dynamic`, else in each node's settings. Without `cluster_id` the id is random. `with_gateways` says whether a
    gateway runs beside each node, for clients that speak Kafka's own wire. Everything is spoken in the clear: on
    loopback nobody else hears it. `secured` has the processes speak TLS.
    """
    ports = iter(free_ports((4 if with_gateways else 2) * voters + 3))
    nodes = [
        _Node(node_id, (nodes_at or {}).get(node_id, home), next(ports), next(ports), directory / f"node-{node_id}")
        for node_id in range(1, voters + 1)
    ]
    placer = _process("placer", 1, next(ports), {}, home)
    heartbeat_port = next(ports)
    static = {"controller.quorum.voters": ",".join(f"{node.id}@{node.quorum}" for node in nodes)}
    quorum = {"controller.quorum.bootstrap.servers": ",".join(node.quorum for node in nodes)}
    cluster_id = cluster_id or uuid_text(random_uuid())
    voting = quorum if dynamic else static
    of_cluster = {**quorum, "cluster.id": cluster_id}
    return ClusterPlan(
        directory=directory,
        cluster_id=cluster_id,
        quorum=tuple(
            _process("quorum", node.id, node.quorum_port, {"metadata.log.dir": str(node.log_dir), **voting}, node.place)
            for node in nodes
        ),
        controllers=tuple(_controller(node, placer, f"{home.host}:{heartbeat_port}") for node in nodes),
        placer=placer,
        heartbeat=_process(
            "heartbeat",
            1,
            heartbeat_port,
            {
                **of_cluster,
                "controller.endpoints": ",".join(node.controller for node in nodes),
                "broker.session.timeout.ms": str(session_timeout_ms),
            },
            home,
        ),
        observer=_process(
            "observer",
            201,
            next(ports),
            {**of_cluster, "observer.database.url": f"sqlite:///{directory / 'observer.db'}"},
            home,
        ),
        gateways=_gateways(nodes, ports, f"{home.host}:{heartbeat_port}") if with_gateways else (),
        directory_ids={node.id: uuid_text(random_uuid()) for node in nodes} if dynamic else {},
    )


def with_page(plan: ClusterPlan) -> ClusterPlan:
    """Returns the plan with an observer that serves its page in the clear, and keeps the state for it."""
    (port,) = free_ports(1)
    settings = {
        **plan.observer.settings,
        "observer.state.database.url": f"sqlite:///{plan.directory / 'state.db'}",
        PAGE: f"PAGE://{HERE.host}:{port}",
    }
    settings["listener.security.protocol.map"] += ",PAGE:PLAINTEXT"
    return replace(plan, observer=replace(plan.observer, settings=settings))


def secured(plan: ClusterPlan, tls: PlanTls) -> ClusterPlan:
    """Returns the plan with gRPC by TLS, with certificates on both sides. Raises ConfigError for the clients' files."""

    def of(process: Process) -> Process:
        keystore, truststore = tls.stores[process.name]
        files = {"ssl.keystore.location": str(keystore), "ssl.truststore.location": str(truststore)}
        if process.service == "gateway":
            grpc = {f"grpc.{name}": value for name, value in files.items()}
            return replace(process, settings={**process.settings, "grpc.security.protocol": "SSL", **grpc})
        speaks = {"listener.security.protocol.map": f"{process.settings['listeners'].partition('://')[0]}:SSL"}
        return replace(process, settings={**process.settings, **speaks, **files})

    keystore, truststore = tls.stores[CLIENTS]
    return replace(
        plan,
        quorum=tuple(map(of, plan.quorum)),
        controllers=tuple(map(of, plan.controllers)),
        placer=of(plan.placer),
        heartbeat=of(plan.heartbeat),
        observer=of(plan.observer),
        gateways=tuple(map(of, plan.gateways)),
        transport=Transport(keystore=keystore, truststore=truststore),
    )


def announcing_gateways(plan: ClusterPlan, protocol: str = "PLAINTEXT") -> ClusterPlan:
    """Returns the plan with quorum nodes and controllers that announce their gateways' first listeners, too.

    For Kafka's nodes: they know no other address of a voter in the log, and a Kafka controller tells its clients no
    other one of a controller. The own listeners, for gRPC, have names that none of Kafka's nodes has.
    """

    def of(process: Process, gateway: Process, own: str) -> Process:
        name = gateway.settings["listeners"].partition("://")[0]
        announced = {
            "listeners": f"{own}://{process.address}",
            "listener.security.protocol.map": f"{own}:PLAINTEXT",
            "advertised.listeners": f"{own}://{process.address},{name}://{gateway.kafka_address}",
            "kafka.listener.security.protocol.map": f"{name}:{protocol}",
        }
        return replace(process, settings={**process.settings, **announced})

    return replace(
        plan,
        quorum=tuple(map(of, plan.quorum, plan.gateways, repeat(OWN_LISTENER))),
        controllers=tuple(map(of, plan.controllers, plan.gateways, repeat(CONTROLLERS_LISTENER))),
    )


class _Node(NamedTuple):
    """A quorum node and its controller, which share an id, a place and a directory, and have a port each."""

    id: int
    place: ProcessHost
    quorum_port: int
    controller_port: int
    log_dir: Path

    @property
    def quorum(self) -> str:
        return f"{self.place.host}:{self.quorum_port}"

    @property
    def controller(self) -> str:
        return f"{self.place.host}:{self.controller_port}"


def _controller(node: _Node, placer: Process, heartbeat: str) -> Process:
    settings = {
        "quorum.endpoint": node.quorum,
        "placer.endpoints": placer.address,
        "heartbeat.endpoint": heartbeat,
        "metadata.log.dir": str(node.log_dir),
    }
    return _process("controller", node.id, node.controller_port, settings, node.place)


def _gateways(nodes: Sequence[_Node], ports: Iterator[int], heartbeat: str) -> tuple[Process, ...]:
    """Returns a gateway for each node; the address of its process is that of its gRPC health."""
    at = {node.id: f"{node.place.host}:{next(ports)}" for node in nodes}
    voters = ",".join(f"{node_id}@{address}" for node_id, address in at.items())

    def gateway(node: _Node, port: int) -> Process:
        settings = {
            "node.id": str(node.id),
            "listeners": f"CONTROLLER://{at[node.id]}",
            "grpc.security.protocol": "PLAINTEXT",
            "shutdown.graceful.timeout.ms": STOP_MS,
            "health.listeners": f"HEALTH://{node.place.host}:{port}",
            "quorum.endpoint": node.quorum,
            "controller.endpoint": node.controller,
            "heartbeat.endpoint": heartbeat,
            "controller.quorum.voters": voters,
        }
        return Process(service="gateway", name=f"gateway-{node.id}", port=port, settings=settings, place=node.place)

    return tuple(gateway(node, next(ports)) for node in nodes)


def _process(service: str, node_id: int, port: int, settings: dict[str, str], place: ProcessHost) -> Process:
    listener = _listener(service)
    common = {
        "node.id": str(node_id),
        "listeners": f"{listener}://{place.host}:{port}",
        "listener.security.protocol.map": f"{listener}:PLAINTEXT",
        "shutdown.graceful.timeout.ms": STOP_MS,
    }
    return Process(
        service=service, name=f"{service}-{node_id}", port=port, settings={**common, **settings}, place=place
    )


def _listener(service: str) -> str:
    """Returns the name of a service's listener."""
    return "CONTROLLER" if service in ("quorum", "controller") else service.upper()
