"""The other end of a call, by gRPC's name of it: `ipv4:10.0.0.1:5000`, `ipv6:%5B::1%5D:5000` or `unix:`."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import unquote

__all__ = ["address_of", "host_of", "peer_attributes"]

PEERS_REMEMBERED: Final = 4_096
"""More connections than a server has: each request asks for its peer."""


@lru_cache(maxsize=PEERS_REMEMBERED)
def address_of(peer: str) -> tuple[str, int] | None:
    """Returns the IP address and port of gRPC's name of a peer; None for a unix socket, which has none.

    >>> address_of("ipv6:%5B::1%5D:5000")
    ('::1', 5000)
    """
    kind, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    return (host.strip("[]"), int(port)) if kind in ("ipv4", "ipv6") and port.isdecimal() else None


def host_of(peer: str) -> str:
    """Returns the IP address in gRPC's name of a peer; empty for a unix socket."""
    address = address_of(peer)
    return "" if address is None else address[0]


def peer_attributes(peer: str) -> dict[str, str | int]:
    """Returns host and port as attributes of a span; none for a unix socket."""
    address = address_of(peer)
    return {} if address is None else {"network.peer.address": address[0], "network.peer.port": address[1]}
