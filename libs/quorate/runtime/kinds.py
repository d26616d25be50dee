"""What a setting's text may be: each kind parses it, writes it back, and states its rule in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

__all__ = [
    "Endpoint",
    "Kind",
    "Listener",
    "Voter",
    "boolean",
    "choice",
    "endpoint",
    "integer",
    "list_of",
    "listener",
    "milliseconds",
    "optional",
    "path",
    "port",
    "python_class",
    "size",
    "text",
    "voter",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How a setting is read. `parse` raises ValueError, with nothing to say beyond `rule`."""

    rule: str
    parse: Callable[[str], T]
    write: Callable[[T], str] = str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Voter:
    """One entry of `controller.quorum.voters`."""

    id: int
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.id}@{self.endpoint}"


@dataclass(frozen=True, slots=True)
class Listener:
    """One entry of `listeners`: a name and where to bind; an empty host is every interface."""

    name: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.name}://{self.endpoint}"


def text() -> Kind[str]:
    """Anything but nothing."""
    return Kind("a text that is not empty", _filled)


def boolean() -> Kind[bool]:
    """Kafka's booleans: true or false, in any case."""
    return Kind("true or false", _boolean, lambda value: str(value).lower())


def python_class(method: str) -> Kind[type]:
    """A class of the operator's own, which is imported, made without arguments, and has this method."""

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
    return Kind(rule, parse, lambda found: f"{found.__module__}:{found.__qualname__}")


def integer(low: int, high: int | None = None) -> Kind[int]:
    """A decimal number from `low` to `high`, both included."""
    assert high is None or low <= high, (low, high)
    rule = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"

    def parse(value: str) -> int:
        # int() would also take 1_000, blanks and other scripts' digits.
        if not re.fullmatch(r"-?[0-9]{1,19}", value):
            raise ValueError
        number = int(value)
        if number < low or (high is not None and number > high):
            raise ValueError
        return number

    return Kind(rule, parse)


def milliseconds(low: int = 0, high: int | None = 2**31 - 1) -> Kind[int]:
    """A time in ms."""
    return replace(integer(low, high), unit="ms")


def size(low: int = 0, high: int | None = None) -> Kind[int]:
    """A size in bytes."""
    return replace(integer(low, high), unit="bytes")


def port() -> Kind[int]:
    """A port to bind; 0 lets the system choose."""
    return integer(0, 65535)


def path() -> Kind[Path]:
    """A file or directory, taken from where the process started if it is relative."""
    return Kind("a path", lambda value: Path(_filled(value)))


def choice(*values: str) -> Kind[str]:
    """One of these words."""

    def parse(value: str) -> str:
        if value not in values:
            raise ValueError
        return value

    return Kind("one of " + ", ".join(values), parse)


def endpoint() -> Kind[Endpoint]:
    """An address to connect to."""
    return Kind("host:port with a port from 1 to 65535", _endpoint)


def voter() -> Kind[Voter]:
    """A voter, as in `controller.quorum.voters`."""
    return Kind("id@host:port", _voter)


def listener() -> Kind[Listener]:
    """A listener, as in `listeners`; port 0 lets the system choose."""
    return Kind("NAME://host:port with a port from 0 to 65535", _listener)


def list_of(kind: Kind[T], *, low: int = 1, distinct: Callable[[T], object] = lambda item: item) -> Kind[tuple[T, ...]]:
    """Several, parted by commas; at least `low`, no two the same by `distinct`."""

    def parse(value: str) -> tuple[T, ...]:
        items = tuple(kind.parse(item.strip()) for item in value.split(",")) if value else ()
        if len(items) < low or len({distinct(item) for item in items}) < len(items):
            raise ValueError
        return items

    rule = f"a comma-separated list, each {kind.rule}, none twice" + (f", at least {low}" if low else "")
    return Kind(rule, parse, lambda items: ",".join(kind.write(item) for item in items), kind.unit)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Nothing, or one of `kind`."""
    return Kind(
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


def _voter(value: str) -> Voter:
    node_id, _, address = value.partition("@")
    return Voter(integer(0, 2**31 - 1).parse(node_id), _endpoint(address))


def _listener(value: str) -> Listener:
    name, parted, address = value.partition("://")
    if not parted or not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise ValueError
    return Listener(name, Endpoint(*_host_and_port(address)))
