"""Matching of an ACL entry's host with a client's address: one address, a network (KIP-1276), or any."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from quorate.metadata.acls import WILDCARD

__all__ = ["covers", "fault_of_host", "host_address", "is_network"]

_V4_NETWORK: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_HOSTS_CACHED: Final = 4_096
"""The cache size of `host_address`, which every request calls."""
_PAIRS_CACHED: Final = 65_536
"""The cache size of network matches by (pattern, host), since clients reconnect from the same hosts."""


class _Network(NamedTuple):
    """A network of IPv4 or IPv6 addresses: `address` is its prefix as an integer, the lowest `shift` bits are free."""

    version: int
    address: int
    shift: int


def is_network(pattern: str) -> bool:
    """Returns whether the host of an ACL entry is written as a network (has a `/`); others are compared as text."""
    return "/" in pattern


def fault_of_host(pattern: str) -> str | None:
    """Returns what is wrong with the host of an ACL entry, as a sentence; None if it is valid.

    It must not be empty. As in Kafka, of the rest only networks are checked.
    """
    if not pattern:
        return "a host is needed; '*' stands for any"
    if is_network(pattern) and _network(pattern) is None:
        return f"host {pattern!r} is no network in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32"
    return None


def covers(pattern: str, host: str) -> bool:
    """Returns whether an entry with host `pattern` matches a client at `host`, an address in `host_address`'s form."""
    if pattern in (WILDCARD, host):
        return True
    return is_network(pattern) and _lies_in(pattern, host)


@lru_cache(maxsize=_HOSTS_CACHED)
def host_address(address: str) -> str:
    """Returns an address in the form that Kafka compares: IPv6 with all groups written out, IPv4-mapped IPv6 as IPv4.

    A text that is not an address is returned unchanged.

    >>> host_address("::1"), host_address("::ffff:10.0.0.1")
    ('0:0:0:0:0:0:0:1', '10.0.0.1')
    """
    bare, percent, scope = address.partition("%")
    parsed = _address(bare)
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(group.lstrip("0") or "0" for group in parsed.exploded.split(":")) + percent + scope


@lru_cache(maxsize=_PAIRS_CACHED)
def _lies_in(pattern: str, host: str) -> bool:
    network, address = _network(pattern), _address(host)
    if network is None or address is None or address.version != network.version:
        return False
    return int(address) >> network.shift == network.address >> network.shift


def _network(pattern: str) -> _Network | None:
    """Parses a pattern in CIDR notation; None if it is not in that notation."""
    if ":" not in pattern:
        found = _V4_NETWORK.fullmatch(pattern)
        if found is None:
            return None
        *octets, bits = map(int, found.groups())
        if max(octets) > 255 or bits > 32:
            return None
        return _Network(4, int.from_bytes(bytes(octets), "big"), 32 - bits)
    text, _, prefix = pattern.partition("/")
    address = _address(text.removeprefix("[").removesuffix("]"))
    if not isinstance(address, IPv6Address) or address.ipv4_mapped is not None:
        return None
    if not re.fullmatch("[0-9]{1,3}", prefix) or int(prefix) > 128:
        return None
    return _Network(6, int(address), 128 - int(prefix))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
