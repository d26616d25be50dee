"""What a server.properties says of a node's directories, roles, voters and listeners, as `storage format` needs it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.cli.failures import Failed
from quorate.nouns import NodeId
from quorate.properties import parse_properties

__all__ = ["Endpoint", "NodeConfig", "read_node_config"]

CONTROLLER: Final = "controller"
ROLES: Final = (CONTROLLER, "broker")
LISTENER_NAME: Final = "CONTROLLER"
"""The name of a listener that is given none: Kafka has no default, its every example has this one."""
EVERY_ADDRESS: Final = ("0.0.0.0", "::", "[::]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a voter is reached."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node. `directories` are all that are formatted, the metadata directory first."""

    path: Path
    node_id: NodeId
    is_controller: bool
    directories: tuple[Path, ...]
    has_static_voters: bool
    values: Mapping[str, str]

    @property
    def metadata_directory(self) -> Path:
        """The directory that holds the metadata log."""
        return self.directories[0]

    @property
    def listener_name(self) -> str:
        """The listener on which controllers speak to each other: the first of `controller.listener.names`."""
        return (_list(self.values, "controller.listener.names") or [LISTENER_NAME])[0].upper()

    def own_endpoint(self) -> Endpoint:
        """Where this controller is reached: as it is advertised, or else as it listens. Raises Failed."""
        for key in ("advertised.listeners", "listeners"):
            for text in _list(self.values, key):
                name, _, address = text.rpartition("://")
                if (name or LISTENER_NAME).upper() == self.listener_name:
                    return self._endpoint(key, text, address)
        raise Failed(
            f"{self.path}: listeners names no {self.listener_name} listener; "
            "with --standalone it becomes this voter's endpoint"
        )

    def _endpoint(self, key: str, text: str, address: str) -> Endpoint:
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise Failed(
                f"{self.path}: {key} has {text!r}; an endpoint of a voter is NAME://host:port, port 1 to 65535"
            )
        if host in EVERY_ADDRESS:
            raise Failed(f"{self.path}: {key} has {text!r}; other controllers cannot connect to {host}, name a host")
        return Endpoint(listener=self.listener_name, host=host.strip("[]") or socket.getfqdn(), port=int(port))


def read_node_config(path: Path) -> NodeConfig:
    """What the file says. Raises Failed, naming file, key, value and rule; OSError."""
    try:
        values = parse_properties(path.read_text("utf-8"))
    except (ValueError, UnicodeDecodeError) as problem:
        raise Failed(f"{path} is not a properties file: {problem}") from None
    # Without process.roles it is the file of one of our own quorum nodes, each of which is a controller.
    roles = _list(values, "process.roles") or [CONTROLLER]
    for role in roles:
        if role not in ROLES:
            raise Failed(f"{path}: process.roles has {role!r}; a node is {' or '.join(ROLES)}, or both")
    return NodeConfig(
        path=path,
        node_id=_node_id(path, values),
        is_controller=CONTROLLER in roles,
        directories=_directories(path, values),
        has_static_voters=bool(_list(values, "controller.quorum.voters")),
        values=values,
    )


def _node_id(path: Path, values: Mapping[str, str]) -> NodeId:
    text = values.get("node.id", "").strip()
    if not text.isdecimal() or int(text) >= 1 << 31:
        raise Failed(f"{path}: node.id is {text!r}; it is a number from 0 to {(1 << 31) - 1}")
    return int(text)


def _directories(path: Path, values: Mapping[str, str]) -> tuple[Path, ...]:
    """`metadata.log.dir` or else the first of `log.dirs`; then the others, each once, by name."""
    data = _list(values, "log.dirs") or _list(values, "log.dir")
    metadata = values.get("metadata.log.dir", "").strip() or (data[0] if data else "")
    if not metadata:
        raise Failed(f"{path}: neither metadata.log.dir nor log.dirs says where the metadata log lies")
    return tuple(map(Path, dict.fromkeys([metadata, *sorted(data)])))


def _list(values: Mapping[str, str], key: str) -> list[str]:
    return [part.strip() for part in values.get(key, "").split(",") if part.strip()]
