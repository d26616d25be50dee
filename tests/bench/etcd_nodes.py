"""Three members of etcd to be measured, and the benchmark tool of etcd's own people as their client.

Both are built from the Go module proxy into build/bin, at the versions in `etcd/go.mod`, where they are absent.
`ETCD=FILE` names another server.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from deploy.local.ports import HOST, free_ports
from tests.bench.measure import Missing, cpu_seconds

ROOT: Final = Path(__file__).resolve().parents[2]
BIN: Final = ROOT / "build" / "bin"
MODULES: Final = {"etcd": "go.etcd.io/etcd/server/v3", "etcd-benchmark": "go.etcd.io/etcd/v3/tools/benchmark"}
KEY_BYTES: Final = 8
KEYS: Final = 1_000_000
READY_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.1
ENDED_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the benchmark tool found: requests a second, seconds of CPU of a request at the members and at the tool."""

    rate: float
    p50_s: float
    p99_s: float
    cpu_s: float
    client_cpu_s: float


def programs() -> tuple[Path, Path, str]:
    """The server, the benchmark tool, and the server's version. Raises Missing where there is neither them nor Go."""
    for name, module in MODULES.items():
        if (BIN / name).exists() or (name == "etcd" and "ETCD" in os.environ):
            continue
        if shutil.which("go") is None:
            raise Missing(f"{BIN.relative_to(ROOT)}/{name} is absent, and so is Go, which builds it")
        BIN.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", BIN / name, module],
            check=True,
            cwd=Path(__file__).parent / "etcd",
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},
        )
    server = Path(os.environ.get("ETCD", BIN / "etcd"))
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"etcd Version: (\S+)", said)
    assert found, said
    return server, BIN / "etcd-benchmark", found.group(1)


class Members:
    """Members that run."""

    def __init__(self, endpoints: list[str], pids: list[int], tool: Path, version: str) -> None:
        self.version = version
        self._endpoints = endpoints
        self._pids = pids
        self._tool = tool

    async def load(self, what: str, *options: str, clients: int, conns: int, total: int) -> Load:
        """So many requests of `what` the tool knows, by so many clients that wait for each answer; at the leader."""
        command = [
            *(str(self._tool), "--endpoints", ",".join(self._endpoints), "--target-leader", "--precise"),
            *("--clients", str(clients), "--conns", str(conns), what, "--total", str(total), *options),
            *("--key-size", str(KEY_BYTES)),
        ]
        used, client = self._used(), _of_children()
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        used, client = self._used() - used, _of_children() - client
        assert done.returncode == 0, done.stderr
        assert "Error distribution" not in done.stdout, done.stdout
        return Load(
            rate=_told(r"Requests/sec:\s+([\d.e+-]+)", done.stdout),
            p50_s=_told(r"50% in ([\d.e+-]+) secs", done.stdout),
            p99_s=_told(r"99% in ([\d.e+-]+) secs", done.stdout),
            cpu_s=used / total,
            client_cpu_s=client / total,
        )

    def _used(self) -> float:
        return sum(map(cpu_seconds, self._pids))


@asynccontextmanager
async def members(count: int = 3) -> AsyncIterator[Members]:
    """Members with default settings, in the clear, on free ports and in a directory of their own."""
    server, tool, version = await asyncio.to_thread(programs)
    directory = Path(tempfile.mkdtemp(prefix="etcd-bench-"))
    ports = free_ports(2 * count)
    clients, peers = ([f"http://{HOST}:{port}" for port in each] for each in (ports[:count], ports[count:]))
    cluster = ",".join(f"m{number}={url}" for number, url in enumerate(peers))
    children = []
    try:
        for number, (client, peer) in enumerate(zip(clients, peers, strict=True)):
            with (directory / f"m{number}.log").open("wb") as output:
                children.append(
                    await asyncio.create_subprocess_exec(
                        *(server, "--name", f"m{number}", "--data-dir", directory / f"m{number}"),
                        *("--listen-client-urls", client, "--advertise-client-urls", client),
                        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                        *("--initial-cluster", cluster, "--log-level", "error"),
                        stdout=output,
                        stderr=output,
                    )
                )
        await asyncio.gather(*(asyncio.to_thread(_wait_healthy, url) for url in clients))
        pids = [child.pid for child in children]
        yield Members([url.partition("//")[2] for url in clients], pids, tool, version)
    finally:
        for child in children:
            if child.returncode is None:
                child.terminate()
        async with asyncio.timeout(ENDED_S):
            await asyncio.gather(*(child.wait() for child in children))
        shutil.rmtree(directory)


def _wait_healthy(url: str) -> None:
    """Waits until a member says that it is, which it does when there is a leader. Raises TimeoutError."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        try:
            with urlopen(f"{url}/health", timeout=READY_S) as answer:
                if b'"true"' in answer.read():
                    return
        except OSError:
            pass  # it does not listen yet, or has no leader
        time.sleep(LOOK_AGAIN_S)
    raise TimeoutError(f"the member of etcd at {url} is not healthy after {READY_S:g} s")


def _of_children() -> float:
    """Seconds of CPU of children that have ended: in between that is the tool alone."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _told(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found.group(1))
