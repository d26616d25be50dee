"""A network of this machine's own, in which every node has an address, and links can be cut, one way or both, or slow.

Each node is in a network namespace; one more namespace is the router between them, and the client stays where it is:

    node 1 ──┐
    node 2 ──┤ router ── client
    node 3 ──┘

A cut is a routing rule of the router, by which packets from one node to another disappear. A slow link goes the
long way through `slow_link`. Everything has the run's own name, and goes with its namespaces.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import permutations
from pathlib import Path

from deploy.local.plan import ProcessHost
from deploy.local.processes import ROOT
from quorate.nouns import NodeId

HOW_TO_GET = "network namespaces: needs root, CAP_NET_ADMIN, `ip` (apt-get install iproute2) and /dev/net/tun"
ROUTER, CLIENT = 254, 100
"""The last part of an address; a node's is its id."""
SLOW = "slow"
SLOW_TABLE = "77"


class Failed(Exception):
    """`ip` refused: what it was asked, and what it said."""


def run(*words: str) -> str:
    """What a command prints. Raises Failed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def is_possible() -> bool:
    """Can namespaces, links between them and rules be made here?"""
    if os.geteuid() != 0 or shutil.which("ip") is None or not Path("/dev/net/tun").exists():
        return False
    name = f"quorate-try-{secrets.token_hex(3)}"
    try:
        run("ip", "netns", "add", name)
    except Failed:
        return False
    try:
        run("ip", "-n", name, "link", "add", "near", "type", "veth", "peer", "name", "far")
        run("ip", "-n", name, "rule", "add", "iif", "near", "to", "198.18.0.1", "blackhole")
    except Failed:
        return False
    finally:
        run("ip", "netns", "del", name)
    return True


class Network:
    """One router, and a namespace for each node."""

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self.nodes = tuple(nodes)
        self._run = secrets.token_hex(3)
        self._subnet = _free_subnet()
        self._rules: list[tuple[str, ...]] = []

    def place(self, node_id: NodeId) -> ProcessHost:
        """Where a node's processes run."""
        return ProcessHost(host=self._address(node_id), enter=("ip", "netns", "exec", self._namespace(node_id)))

    @property
    def home(self) -> ProcessHost:
        """Where the client is, and all that is beside it."""
        return ProcessHost(host=self._address(CLIENT))

    # What happens to it.

    @contextmanager
    def cut(self, *, from_: Iterable[NodeId], to: Iterable[NodeId]) -> Iterator[None]:
        """Nothing of what the former send reaches the latter, for the length of the block; the other way is free."""
        sources, targets = tuple(from_), tuple(to)
        with self._ruled((source, target, ("blackhole",)) for source in sources for target in targets):
            yield

    @contextmanager
    def parted(self, *sides: Iterable[NodeId]) -> Iterator[None]:
        """Nothing passes from one side to another, for the length of the block."""
        parts = [tuple(side) for side in sides]
        pairs = [(one, other) for side, rest in permutations(parts, 2) for one in side for other in rest]
        with self._ruled((one, other, ("blackhole",)) for one, other in pairs):
            yield

    @asynccontextmanager
    async def slow(self, *settings: str) -> AsyncIterator[None]:
        """All that nodes send each other goes the long way, for the length of the block."""
        detour = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self._router),
            *(sys.executable, "-m", "tests.e2e.slow_link", SLOW, *settings),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert detour.stdout is not None
            assert b"ready\n" == await detour.stdout.readline()
            self._in_router("link", "set", SLOW, "up")
            self._in_router("route", "add", "default", "dev", SLOW, "table", SLOW_TABLE)
            with self._ruled((one, other, ("lookup", SLOW_TABLE)) for one, other in permutations(self.nodes, 2)):
                yield
        finally:
            if detour.returncode is None:
                detour.terminate()
            await detour.wait()

    @contextmanager
    def _ruled(self, rules: Iterable[tuple[NodeId, NodeId, tuple[str, ...]]]) -> Iterator[None]:
        done: list[tuple[str, ...]] = []
        try:
            for source, target, action in rules:
                rule = ("iif", _link(source), "to", self._address(target), *action)
                self._in_router("rule", "add", *rule)
                done.append(rule)
            yield
        finally:
            for rule in done:
                self._in_router("rule", "del", *rule)

    # From start to end.

    def build(self) -> None:
        """Make everything. Raises Failed; `remove` then takes away what there is."""
        run("ip", "netns", "add", self._router)
        self._in_router("link", "set", "lo", "up")
        for key in ("ip_forward", "conf/all/forwarding"):
            run("ip", "netns", "exec", self._router, "sh", "-c", f"echo 1 > /proc/sys/net/ipv4/{key}")
        for node_id in self.nodes:
            namespace = self._namespace(node_id)
            run("ip", "netns", "add", namespace)
            run("ip", "-n", namespace, "link", "set", "lo", "up")
            self._plug(node_id, "eth0", namespace)
        self._plug(CLIENT, self._home_link, None)

    def remove(self) -> None:
        """Take everything away that `build` has made; links go with their namespace."""
        known = run("ip", "netns", "list").split()
        for namespace in (self._router, *map(self._namespace, self.nodes)):
            if namespace in known:
                run("ip", "netns", "del", namespace)

    def _plug(self, host: int, device: str, namespace: str | None) -> None:
        """A cable from the router to a host; the client's host is in no namespace."""
        at_host = ("ip",) if namespace is None else ("ip", "-n", namespace)
        router = self._address(ROUTER)
        self._in_router("link", "add", _link(host), "type", "veth", "peer", "name", device)
        self._in_router("link", "set", device, "netns", namespace or str(os.getpid()))
        self._in_router("addr", "add", router, "peer", self._address(host), "dev", _link(host))
        self._in_router("link", "set", _link(host), "up")
        run(*at_host, "addr", "add", self._address(host), "peer", router, "dev", device)
        run(*at_host, "link", "set", device, "up")
        run(*at_host, "route", "add", f"{self._subnet}.0/24", "via", router)

    def _in_router(self, *words: str) -> None:
        run("ip", "-n", self._router, *words)

    def _address(self, host: int) -> str:
        return f"{self._subnet}.{host}"

    @property
    def _router(self) -> str:
        return f"quorate-{self._run}-router"

    def _namespace(self, node_id: NodeId) -> str:
        return f"quorate-{self._run}-{node_id}"

    @property
    def _home_link(self) -> str:
        return f"quorate-{self._run}"  # a link's name has 15 characters at most


def _link(host: int) -> str:
    """The router's end of the cable to a host."""
    return f"to-{host}"


def _free_subnet() -> str:
    """Three parts of an address out of 198.18.0.0/15, which is for tests of networks (RFC 2544), not routed here."""
    while True:
        subnet = f"198.{18 + secrets.randbelow(2)}.{secrets.randbelow(256)}"
        if not run("ip", "route", "show", "root", f"{subnet}.0/24").strip():
            return subnet


@contextmanager
def network(nodes: Sequence[NodeId]) -> Iterator[Network]:
    """A network for the length of the block."""
    made = Network(nodes)
    try:
        made.build()
        yield made
    finally:
        made.remove()
