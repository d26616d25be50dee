"""Reads a node's server.properties for `storage format`: its directories, roles, voters and listeners."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.cli.failures import Failed
from quorate.nouns import NodeId
from quorate.properties import parse_properties

__all__ = ["NodeConfig", "VoterAddress", "read_node_config"]

CONTROLLER: Final = "controller"
ROLES: Final = (CONTROLLER, "broker")
LISTENER_NAME: Final = "CONTROLLER"
"""The listener name if none is configured: Kafka has no default, but its examples use this one."""
EVERY_ADDRESS: Final = ("0.0.0.0", "::", "[::]")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterAddress:
    """The listener name, host and port of a voter."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The configuration of one node; `directories` are those to format, the metadata directory first."""

    path: Path
    node_id: NodeId
    is_controller: bool
    directories: tuple[Path, ...]
    has_static_voters: bool
    values: Mapping[str, str]

    @property
    def metadata_directory(self) -> Path:
        """The directory that holds the metadata partition: `metadata.log.dir`, or else the first of `log.dirs`."""
        return self.directories[0]

    @property
    def listener_name(self) -> str:
        """The listener name of controllers, in upper case: the first of `controller.listener.names`.

        Without these, a Quorate quorum node's is the first of its `listeners`, at which its peers call it.
        """
        names = _list(self.values, "controller.listener.names")
        if not names and "process.roles" not in self.values:
            names = [each.partition("://")[0] for each in _list(self.values, "listeners") if "://" in each]
        return (names or [LISTENER_NAME])[0].upper()

    def own_endpoint(self) -> VoterAddress:
        """Returns this controller's endpoint from `advertised.listeners`, or else from `listeners`. Raises Failed.

        An empty host becomes the name of this host.
        """
        for key in ("advertised.listeners", "listeners"):
            for text in _list(self.values, key):
                name, _, address = text.rpartition("://")
                if (name or LISTENER_NAME).upper() == self.listener_name:
                    return self._endpoint(key, text, address)
        raise Failed(
            f"{self.path}: listeners names no {self.listener_name} listener; "
            "with --standalone it becomes this voter's endpoint"
        )

    def _endpoint(self, key: str, text: str, address: str) -> VoterAddress:
        host, _, port = address.rpartition(":")
        if not (port.isascii() and port.isdecimal() and len(port) <= 5) or not 0 < int(port) < 1 << 16:
            raise Failed(
                f"{self.path}: {key} has {text[:80]!r}; an endpoint of a voter is NAME://host:port, port 1 to 65535"
            )
        if host in EVERY_ADDRESS:
            raise Failed(f"{self.path}: {key} has {text!r}; other controllers cannot connect to {host}, name a host")
        return VoterAddress(listener=self.listener_name, host=host.strip("[]") or socket.getfqdn(), port=int(port))


def read_node_config(path: Path) -> NodeConfig:
    """Reads and checks a server.properties. Raises Failed with file, key, value and rule; OSError."""
    if path.exists() and not path.is_file():
        raise Failed(f"{path} is no file; --config names a node's server.properties")
    try:
        values = parse_properties(path.read_text("utf-8"))
    except (ValueError, UnicodeDecodeError) as problem:
        raise Failed(f"{path} is not a properties file: {problem}") from None
    for key, value in values.items():
        if "\0" in value:
            raise Failed(f"{path}: {key} is {value[:40]!r}; a value has no NUL in it")
    roles = _roles(path, values)
    return NodeConfig(
        path=path,
        node_id=_node_id(path, values),
        is_controller=CONTROLLER in roles,
        directories=_directories(path, values),
        has_static_voters=bool(_list(values, "controller.quorum.voters")),
        values=values,
    )


def _roles(path: Path, values: Mapping[str, str]) -> list[str]:
    """Returns the roles of the node. Raises Failed if a role is unknown, or if the file is no KRaft node's."""
    roles = _list(values, "process.roles")
    if not roles:
        _check_own_quorum_node(path, values)
        return [CONTROLLER]
    for role in roles:
        if role not in ROLES:
            raise Failed(f"{path}: process.roles has {role!r}; a node is {' or '.join(ROLES)}, or both")
    return roles


def _check_own_quorum_node(path: Path, values: Mapping[str, str]) -> None:
    """Returns if a file without process.roles is a Quorate quorum node's, which names its metadata.log.dir."""
    for key in values:
        if key.startswith("zookeeper."):
            raise Failed(
                f"{path}: {key} is set, and process.roles is not: a broker of a ZooKeeper cluster, not of KRaft"
            )
    if not values.get("metadata.log.dir", "").strip():
        raise Failed(
            f"{path}: process.roles is not set; a Kafka node has it, and a Quorate quorum node has metadata.log.dir"
        )


def _node_id(path: Path, values: Mapping[str, str]) -> NodeId:
    text = values.get("node.id", "").strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 10) or int(text) >= 1 << 31:
        raise Failed(f"{path}: node.id is {text[:40]!r}; it is a number from 0 to {(1 << 31) - 1}")
    return int(text)


def _directories(path: Path, values: Mapping[str, str]) -> tuple[Path, ...]:
    """Returns the metadata directory (`metadata.log.dir`, else the first of `log.dirs`), then the others by name."""
    data = _list(values, "log.dirs") or _list(values, "log.dir")
    metadata = values.get("metadata.log.dir", "").strip() or (data[0] if data else "")
    if not metadata:
        raise Failed(f"{path}: neither metadata.log.dir nor log.dirs says where the metadata log lies")
    return tuple(map(Path, dict.fromkeys([metadata, *sorted(data)])))


def _list(values: Mapping[str, str], key: str) -> list[str]:
    return [part.strip() for part in values.get(key, "").split(",") if part.strip()]
