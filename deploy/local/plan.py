"""Which processes a local control plane has, on which ports, with which settings."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

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
    nodes = [
        _Node(node_id, next(ports), next(ports), directory / f"node-{node_id}") for node_id in range(1, voters + 1)
    ]
    placer_port = next(ports)
    return Plan(
        directory=directory,
        cluster_id=uuid_text(Uuid(secrets.token_bytes(16))),
        quorum=tuple(_quorum(node, nodes) for node in nodes),
        controllers=tuple(_controller(node, placer_port) for node in nodes),
        placer=_process("placer", 1, placer_port, {}),
        heartbeat=_process(
            "heartbeat",
            1,
            next(ports),
            {
                "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{node.quorum_port}" for node in nodes),
                "controller.endpoints": ",".join(f"{HOST}:{node.controller_port}" for node in nodes),
                "broker.session.timeout.ms": str(session_timeout_ms),
            },
        ),
        observer=_process(
            "observer",
            201,
            next(ports),
            {
                "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{node.quorum_port}" for node in nodes),
                "observer.database.url": f"sqlite:///{directory / 'observer.db'}",
            },
        ),
    )


class _Node(NamedTuple):
    """A quorum node and the controller beside it: one id, one directory, two ports."""

    id: int
    quorum_port: int
    controller_port: int
    log_dir: Path


def _quorum(node: _Node, nodes: list[_Node]) -> Process:
    voters = ",".join(f"{each.id}@{HOST}:{each.quorum_port}" for each in nodes)
    settings = {"controller.quorum.voters": voters, "metadata.log.dir": str(node.log_dir)}
    return _process("quorum", node.id, node.quorum_port, settings)


def _controller(node: _Node, placer_port: int) -> Process:
    settings = {
        "quorum.endpoint": f"{HOST}:{node.quorum_port}",
        "placer.endpoints": f"{HOST}:{placer_port}",
        "metadata.log.dir": str(node.log_dir),
    }
    return _process("controller", node.id, node.controller_port, settings)


def _process(service: str, node_id: int, port: int, settings: dict[str, str]) -> Process:
    listener = "CONTROLLER" if service in ("quorum", "controller") else service.upper()
    common = {"node.id": str(node_id), "listeners": f"{listener}://{HOST}:{port}"}
    return Process(service=service, name=f"{service}-{node_id}", port=port, settings={**common, **settings})


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
