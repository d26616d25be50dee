"""Who is at the other end of a call, by the name that gRPC has for it."""

from __future__ import annotations

import pytest

from quorate.runtime.connections.peers import address_of, host_of


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000)),
        ("ipv6:[fe80::1%25eth0]:5000", ("fe80::1%eth0", 5000)),
        ("unix:/run/quorate.sock", None),
        ("unix:", None),
        ("", None),
    ],
)
def test_a_peer_has_an_address_unless_it_came_by_a_unix_socket(peer: str, address: tuple[str, int] | None) -> None:
    assert address == address_of(peer)
    assert host_of(peer) == ("" if address is None else address[0])
