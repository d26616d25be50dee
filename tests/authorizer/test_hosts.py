"""Hosts of entries: addresses, networks, and how an address is written to be compared."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.authorizer import covers, fault_of_host, host_address


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.1/32", "10.0.0.1", True),
        ("10.0.0.1/32", "10.0.0.2", False),
        ("10.0.0.0/24", "10.0.0.0", True),
        ("10.0.0.0/24", "10.0.0.255", True),
        ("0.0.0.0/0", "192.168.0.1", True),
        ("0.0.0.0/0", "0:0:0:0:0:0:0:1", False),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:5", True),
        ("2001:db8::/32", "2001:db9:0:0:0:0:0:5", False),
        ("[2001:db8::]/32", "2001:db8:0:0:0:0:0:5", True),
        ("::/0", "10.0.0.1", False),
        ("::1", "0:0:0:0:0:0:0:1", False),
        ("10.0.0.0/33", "10.0.0.1", False),
        ("::/" + "9" * 5_000, "0:0:0:0:0:0:0:1", False),
        ("nonsense/8", "10.0.0.1", False),
        ("10.0.0.0/8", "a.host.example", False),
        ("10.0.0.0/8", "", False),
    ],
)
def test_covers(pattern: str, host: str, expected: bool) -> None:
    """Kafka compares text, but for networks: `::1` is not how it writes that address, and covers nobody."""
    assert expected == covers(pattern, host)


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 128))
def test_a_network_covers_what_it_contains(base: object, other: object, bits: int) -> None:
    address, asked = ip_address(str(base)), ip_address(str(other))
    if getattr(address, "ipv4_mapped", None) is not None:
        return
    bits = min(bits, address.max_prefixlen)
    network = ip_network(f"{address}/{bits}", strict=False)

    seen = getattr(asked, "ipv4_mapped", None) or asked  # which is an IPv4 address to Java, and so to Kafka
    assert (seen in network) == covers(f"{address}/{bits}", host_address(str(asked)))
    last = network.broadcast_address
    if getattr(last, "ipv4_mapped", None) is None:
        assert covers(f"{address}/{bits}", host_address(str(last)))


@pytest.mark.parametrize("pattern", ["*", "10.0.0.1", "any text", "10.0.0.0/8", "010.0.0.1/08", "2001:db8::/0"])
def test_finds_no_fault_with(pattern: str) -> None:
    assert fault_of_host(pattern) is None


@pytest.mark.parametrize(
    "pattern", ["", "/", "/8", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "10.0.0.0/255.0.0.0", "1.2.3/8", "::/x", ":/1"]
)
def test_finds_fault_with(pattern: str) -> None:
    assert fault_of_host(pattern) is not None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:DB8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a.host.example", "a.host.example"),
        ("", ""),
    ],
)
def test_an_address_is_written_as_java_writes_it(address: str, expected: str) -> None:
    """InetAddress.getHostAddress, which is what Kafka compares."""
    assert expected == host_address(address)
