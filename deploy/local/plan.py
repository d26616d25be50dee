"""Which processes a local control plane has, on which ports, with which settings."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path

from kraft import Uuid
from quorate.nouns import uuid_text

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One service's process: its module is `services.<service>`, its settings go into a properties file."""

    service: str
    name: str
    port: int
    settings: dict[str, str]

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A control plane of some voters. `directory` holds everything that it writes."""

    directory: Path
    cluster_id: str
    quorum: tuple[Process, ...]
    controllers: tuple[Process, ...]
    placer: Process
    heartbeat: Process
    observer: Process
    brokers: tuple[int, ...] = (101, 102, 103)
    racks: dict[int, str] = field(default_factory=lambda: {101: "a", 102: "b", 103: "c"})

    @property
    def processes(self) -> tuple[Process, ...]:
        """All, in the order in which they are started."""
        return (self.observer, *self.quorum, *self.controllers, self.placer, self.heartbeat)

    def log_dir(self, node_id: int) -> Path:
        """The log directory of a quorum node."""
        return self.directory / f"node-{node_id}"


def make_plan(directory: Path, *, voters: int = 3, session_timeout_ms: int = 9_000) -> Plan:
    """A plan on free ports of loopback."""
    ports = iter(free_ports(2 * voters + 3))
    ids = range(1, voters + 1)
    quorum_ports = {node_id: next(ports) for node_id in ids}
    controller_ports = {node_id: next(ports) for node_id in ids}
    placer_port, heartbeat_port, observer_port = next(ports), next(ports), next(ports)
    servers = ",".join(f"{HOST}:{port}" for port in quorum_ports.values())
    log_dirs = {node_id: str(directory / f"node-{node_id}") for node_id in ids}
    return Plan(
        directory=directory,
        cluster_id=uuid_text(Uuid(secrets.token_bytes(16))),
        quorum=tuple(
            Process(
                service="quorum",
                name=f"quorum-{node_id}",
                port=port,
                settings={
                    "node.id": str(node_id),
                    "listeners": f"CONTROLLER://{HOST}:{port}",
                    "controller.quorum.voters": ",".join(f"{n}@{HOST}:{p}" for n, p in quorum_ports.items()),
                    "metadata.log.dir": log_dirs[node_id],
                },
            )
            for node_id, port in quorum_ports.items()
        ),
        controllers=tuple(
            Process(
                service="controller",
                name=f"controller-{node_id}",
                port=port,
                settings={
                    "node.id": str(node_id),
                    "listeners": f"CONTROLLER://{HOST}:{port}",
                    "quorum.endpoint": f"{HOST}:{quorum_ports[node_id]}",
                    "placer.endpoints": f"{HOST}:{placer_port}",
                    "metadata.log.dir": log_dirs[node_id],
                },
            )
            for node_id, port in controller_ports.items()
        ),
        placer=Process(
            service="placer",
            name="placer-1",
            port=placer_port,
            settings={"node.id": "1", "listeners": f"PLACER://{HOST}:{placer_port}"},
        ),
        heartbeat=Process(
            service="heartbeat",
            name="heartbeat-1",
            port=heartbeat_port,
            settings={
                "node.id": "1",
                "listeners": f"HEARTBEAT://{HOST}:{heartbeat_port}",
                "controller.quorum.bootstrap.servers": servers,
                "controller.endpoints": ",".join(f"{HOST}:{port}" for port in controller_ports.values()),
                "broker.session.timeout.ms": str(session_timeout_ms),
            },
        ),
        observer=Process(
            service="observer",
            name="observer-1",
            port=observer_port,
            settings={
                "node.id": "201",
                "listeners": f"OBSERVER://{HOST}:{observer_port}",
                "controller.quorum.bootstrap.servers": servers,
                "observer.database.url": f"sqlite:///{directory / 'observer.db'}",
            },
        ),
    )


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
