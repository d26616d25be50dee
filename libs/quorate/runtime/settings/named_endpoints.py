"""Addresses of other nodes in settings, with the name of the listener where it is given: `NAME://host:port`."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.runtime.settings.setting_types import (
    ConfiguredVoter,
    Endpoint,
    SettingType,
    endpoint,
    listener_name,
    voter,
)

__all__ = ["NamedEndpoint", "NamedVoter", "named_endpoint", "named_voter"]


@dataclass(frozen=True, slots=True)
class NamedEndpoint:
    """An address, with its listener's name if it is given."""

    endpoint: Endpoint
    listener: str = ""

    def __str__(self) -> str:
        return f"{self.listener}://{self.endpoint}" if self.listener else str(self.endpoint)


@dataclass(frozen=True, slots=True)
class NamedVoter(ConfiguredVoter):
    """One entry of `controller.quorum.voters`, with the listener's name if it is given."""

    listener: str = ""

    def __str__(self) -> str:
        return f"{self.id}@{NamedEndpoint(self.endpoint, self.listener)}"


def named_voter() -> SettingType[NamedVoter]:
    """Setting type: a voter as in `controller.quorum.voters`; `id@NAME://host:port` names its listener, too."""

    def parse(value: str) -> NamedVoter:
        node_id, _, rest = value.partition("@")
        name, address = _named(rest)
        plain = voter().parse(f"{node_id}@{address}")
        return NamedVoter(plain.id, plain.endpoint, name)

    return SettingType("id@host:port or id@NAME://host:port", parse)


def named_endpoint() -> SettingType[NamedEndpoint]:
    """Setting type: an address to connect to; `NAME://host:port` names its listener, too."""

    def parse(value: str) -> NamedEndpoint:
        name, address = _named(value)
        return NamedEndpoint(endpoint().parse(address), name)

    return SettingType("host:port or NAME://host:port, with a port from 1 to 65535", parse)


def _named(value: str) -> tuple[str, str]:
    """Splits `NAME://host:port`; the name is "" if there is none. Raises ValueError."""
    name, parted, address = value.partition("://")
    if not parted:
        return "", value
    return listener_name().parse(name), address
