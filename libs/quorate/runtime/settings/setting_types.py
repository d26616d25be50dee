"""The types of configuration values: each parses a text, writes it back, and states its rule for error messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from ipaddress import ip_address
from itertools import combinations
from pathlib import Path
from typing import Generic, TypeVar

__all__ = [
    "ConfiguredVoter",
    "Endpoint",
    "ListenerAddress",
    "SettingType",
    "boolean",
    "choice",
    "endpoint",
    "integer",
    "list_of",
    "listener",
    "listener_name",
    "listeners",
    "milliseconds",
    "named_choice",
    "optional",
    "path",
    "port",
    "principals",
    "python_class",
    "size",
    "text",
    "voter",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingType(Generic[T]):
    """The type of a setting: `parse` makes a value of a text, or raises ValueError if it breaks `rule`; `write` a text.

    `rule` comes after "must be" in messages; `unit` is for the table of settings.
    """

    rule: str
    parse: Callable[[str], T]
    write: Callable[[T], str] = str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A network address: host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ConfiguredVoter:
    """One entry of `controller.quorum.voters`: node id and endpoint."""

    id: int
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.id}@{self.endpoint}"


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """One entry of `listeners`: a name and the address to bind; an empty host means every interface."""

    name: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.name}://{self.endpoint}"


def text() -> SettingType[str]:
    """Setting type: a text that is not empty."""
    return SettingType("a text that is not empty", _filled)


def boolean() -> SettingType[bool]:
    """Setting type: a boolean as Kafka writes it, true or false in any case."""
    return SettingType("true or false", _boolean, lambda value: str(value).lower())


def principals() -> SettingType[frozenset[str]]:
    """Setting type: principals, as in `User:alice;User:CN=bob,O=x`; names may have commas and colons."""
    return SettingType(
        "principals of the form type:name with ; between them", _principals, lambda users: ";".join(sorted(users))
    )


def python_class(method: str) -> SettingType[type]:
    """Setting type: a Python class of the operator's, as module:Class, which is imported; it must have this method."""

    def parse(value: str) -> type:
        module, _, name = value.partition(":")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            raise ValueError from None
        if not isinstance(found, type) or not callable(getattr(found, method, None)):
            raise ValueError
        return found

    rule = f"module:Class of a Python class that can be imported and has a method {method}"
    return SettingType(rule, parse, lambda found: f"{found.__module__}:{found.__qualname__}")


def integer(low: int, high: int | None = None) -> SettingType[int]:
    """Setting type: a decimal integer from `low` to `high`, both inclusive; without `high` there is no upper limit."""
    assert high is None or low <= high, (low, high)
    rule = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    def parse(value: str) -> int:
        # int() would also accept 1_000, blanks and digits of other scripts.
        if not re.fullmatch(r"-?[0-9]{1,19}", value):
            raise ValueError
        number = int(value)
        if number < low or (high is not None and number > high):
            raise ValueError
        return number

    return SettingType(rule, parse)


def milliseconds(low: int = 0, high: int | None = 2**31 - 1) -> SettingType[int]:
    """Setting type: a time span in ms."""
    return replace(integer(low, high), unit="ms")


def size(low: int = 0, high: int | None = None) -> SettingType[int]:
    """Setting type: a size in bytes."""
    return replace(integer(low, high), unit="bytes")


def port() -> SettingType[int]:
    """Setting type: a port to bind; 0 lets the system choose one."""
    return integer(0, 65535)


def path() -> SettingType[Path]:
    """Setting type: a path; a relative one starts at the working directory of the process."""
    return SettingType("a path", lambda value: Path(_filled(value)))


def choice(*values: str) -> SettingType[str]:
    """Setting type: one of the given words."""

    def parse(value: str) -> str:
        if value not in values:
            raise ValueError
        return value

    return SettingType("one of " + ", ".join(values), parse)


def endpoint() -> SettingType[Endpoint]:
    """Setting type: an address to connect to, as host:port."""
    return SettingType("host:port with a port from 1 to 65535", _endpoint)


def voter() -> SettingType[ConfiguredVoter]:
    """Setting type: a voter as in `controller.quorum.voters`, id@host:port."""
    return SettingType("id@host:port", _voter)


def listener_name() -> SettingType[str]:
    """Setting type: a listener's name in any case, kept in capitals (Kafka's ListenerName.normalised).

    >>> listener_name().parse("controlplane-9090")
    'CONTROLPLANE-9090'
    """
    return SettingType("a listener's name of letters, digits, '.', '_' and '-'", _listener_name)


def listener() -> SettingType[ListenerAddress]:
    """Setting type: a listener as in `listeners`, NAME://host:port; port 0 lets the system choose one."""
    return SettingType("NAME://host:port with a port from 0 to 65535", _listener)


def listeners() -> SettingType[tuple[ListenerAddress, ...]]:
    """Setting type: `listeners`, at least one. Names differ by more than their case, as in Kafka, and so do ports."""
    kind = list_of(listener(), distinct=lambda each: each.name)

    def parse(value: str) -> tuple[ListenerAddress, ...]:
        found = kind.parse(value)
        if any(_is_one_port(one.endpoint, other.endpoint) for one, other in combinations(found, 2)):
            raise ValueError
        return found

    rule = f"{kind.rule}; names must differ, and so must ports, except 0 and those of one IPv4 and one IPv6 address"
    return replace(kind, rule=rule, parse=parse)


def named_choice(*values: str) -> SettingType[tuple[str, str]]:
    """Setting type: a listener's name and one of the given words after it, as in CONTROLLER:SSL."""

    def parse(value: str) -> tuple[str, str]:
        name, _, chosen = value.partition(":")
        if chosen not in values:
            raise ValueError
        return _listener_name(name), chosen

    return SettingType(f"NAME:PROTOCOL with one of {', '.join(values)}", parse, ":".join)


def list_of(
    kind: SettingType[T], *, low: int = 1, distinct: Callable[[T], object] = lambda item: item
) -> SettingType[tuple[T, ...]]:
    """Setting type: a comma-separated list of at least `low` values. No two may be equal by `distinct`."""

    def parse(value: str) -> tuple[T, ...]:
        items = tuple(kind.parse(item.strip()) for item in value.split(",")) if value else ()
        if len(items) < low or len({distinct(item) for item in items}) < len(items):
            raise ValueError
        return items

    rule = f"a comma-separated list, each {kind.rule}, none twice" + (f", at least {low}" if low else "")
    return SettingType(rule, parse, lambda items: ",".join(kind.write(item) for item in items), kind.unit)


def optional(kind: SettingType[T]) -> SettingType[T | None]:
    """Setting type: an empty text, which gives None, or a value of `kind`."""
    return SettingType(
        f"empty or {kind.rule}",
        lambda value: kind.parse(value) if value else None,
        lambda value: "" if value is None else kind.write(value),
        kind.unit,
    )


def _filled(value: str) -> str:
    if not value:
        raise ValueError
    return value


def _boolean(value: str) -> bool:
    words = {"true": True, "false": False}
    if value.lower() not in words:
        raise ValueError
    return words[value.lower()]


def _principals(value: str) -> frozenset[str]:
    users = frozenset(user.strip() for user in value.split(";")) - {""}
    for user in users:
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise ValueError
    return users


def _endpoint(value: str) -> Endpoint:
    host, port_number = _host_and_port(value)
    if not host or port_number == 0:
        raise ValueError
    return Endpoint(host, port_number)


def _host_and_port(value: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]*)):([0-9]{1,5})", value)
    if match is None or int(match[3]) > 65535:
        raise ValueError
    return match[1] or match[2], int(match[3])


def _is_one_port(one: Endpoint, other: Endpoint) -> bool:
    """Whether two listeners would share a port: Kafka's rule, which does not look at host names."""
    if one.port != other.port or not one.port:
        return False
    return {_ip_version(one.host), _ip_version(other.host)} != {4, 6}


def _ip_version(host: str) -> int | None:
    """Returns 4 or 6; None for a host's name."""
    try:
        return ip_address(host).version
    except ValueError:
        return None


def _voter(value: str) -> ConfiguredVoter:
    node_id, _, address = value.partition("@")
    return ConfiguredVoter(integer(0, 2**31 - 1).parse(node_id), _endpoint(address))


def _listener(value: str) -> ListenerAddress:
    name, parted, address = value.partition("://")
    if not parted:
        raise ValueError
    return ListenerAddress(_listener_name(name), Endpoint(*_host_and_port(address)))


def _listener_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", value):
        raise ValueError
    return value.upper()
