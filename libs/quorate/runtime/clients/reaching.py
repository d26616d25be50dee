"""Advertised listeners: the address under which other nodes reach this one, never a wildcard address."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from quorate.runtime.settings.setting_types import Endpoint, ListenerAddress, SettingType, listener

__all__ = ["EVERY_ADDRESS", "advertised", "reached_at"]

EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})
"""Wildcard hosts: a node can listen on them, but nobody can connect to them from elsewhere."""


def advertised() -> SettingType[ListenerAddress]:
    """Returns the setting type of an entry of `advertised.listeners`, with a port, and with a host that is no wildcard.

    Kafka refuses 0.0.0.0 as well (KafkaConfig.validateValues).
    """
    kind = listener()

    def parse(value: str) -> ListenerAddress:
        found = kind.parse(value)
        if found.endpoint.host in EVERY_ADDRESS or not found.endpoint.port:
            raise ValueError
        return found

    rule = "NAME://host:port with a port from 1 to 65535 and a host that others can connect to, so not 0.0.0.0 or ::"
    return replace(kind, rule=rule, parse=parse)


def reached_at(
    listens: ListenerAddress,
    advertises: ListenerAddress | None,
    *,
    port: int | None = None,
    configured: Endpoint | None = None,
    host_name: Callable[[], str] = socket.getfqdn,
) -> ListenerAddress:
    """Returns the listener to register in the log: the advertised one, else the address where the node listens.

    For a node that listens on every interface it is the address in controller.quorum.voters (`configured`), else the
    host's name (KafkaConfig.effectiveAdvertisedControllerListeners, ListenerInfo). `port` is the port that the system
    has chosen if the setting is 0.

    >>> str(reached_at(ListenerAddress("A", Endpoint("", 9093)), None, host_name=lambda: "here.example"))
    'A://here.example:9093'
    """
    if advertises is not None:
        return advertises
    at = listens.endpoint
    if at.host in EVERY_ADDRESS:
        at = configured or Endpoint(host_name(), at.port)
    return ListenerAddress(listens.name, at if at.port else Endpoint(at.host, port or 0))
