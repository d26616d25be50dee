"""The addresses of the cluster: machines on one switch, a range of pods on each node, services, DNS."""

from __future__ import annotations

from typing import Final

CONTROL: Final = "10.90.0.1"
"""The machine of the control plane, with the switch and the DNS server."""
MACHINES: Final = "10.90.0.0/24"
API: Final = f"https://{CONTROL}:6443"
PODS: Final = "10.91.0.0/16"
SERVICES: Final = "10.92.0.0/16"
API_SERVICE: Final = "10.92.0.1"
DOMAIN: Final = "cluster.local"


def node_address(number: int) -> str:
    """The address of node 1, 2, …"""
    return f"10.90.0.{10 + number}"


def pods_of(number: int) -> str:
    """The range of the pods on node 1, 2, …"""
    return f"10.91.{number}.0/24"
