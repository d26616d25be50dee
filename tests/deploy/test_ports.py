"""Ports for servers that start later: nobody else gets them meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from deploy.local.ports import BLOCK, HOST, free_ports
from deploy.local.processes import ROOT

COUNT = 120
"""More than are in one block."""
CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_port_is_given_twice_and_each_can_be_listened_on() -> None:
    first, second = free_ports(COUNT), free_ports(COUNT)

    assert 2 * COUNT == len({*first, *second})
    for port in first:
        with socket.socket() as server:
            server.bind((HOST, port))
            server.listen(1)


def test_no_client_is_given_one_by_the_kernel() -> None:
    assert max(free_ports(COUNT)) < int(CLIENTS.read_text().split()[0])


def test_two_processes_that_ask_at_once_get_different_ones() -> None:
    """Both had looked, and neither listens yet."""
    code = f"from deploy.local.ports import free_ports; print(*free_ports({COUNT}), flush=True); input()"
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    given = [[int(port) for port in each.stdout.readline().split()] for each in asking if each.stdout is not None]
    for each in asking:
        each.communicate("\n")

    assert [COUNT] * 3 == [len(ports) for ports in given]
    assert 3 * COUNT == len({port for ports in given for port in ports})


def test_a_port_that_somebody_listens_on_is_passed_over() -> None:
    (port,) = free_ports(1)
    while port % BLOCK == BLOCK - 1:  # the last of its block
        (port,) = free_ports(1)
    with socket.socket() as server:
        server.bind((HOST, port + 1))  # it would be the next
        server.listen(1)

        assert port + 1 not in free_ports(COUNT)
