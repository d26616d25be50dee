"""How long twenty good callers wait beside one bad caller, at our gateway and at a Kafka controller: `make neighbours`.

All speak Kafka's wire by TLS with certificates, to the node that leads, with an authorizer. The bad caller has a
certificate and no right (`bad_neighbours`), and a process of its own. The good ones write, read, ask for the quorum and
connect anew. A wait includes the connection where there is none.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.errors import ApiError
from quorate.network.client import Connection, Timeouts, connect
from quorate.nouns import METADATA_TOPIC, NodeId
from tests.bench.bad_neighbours import KINDS, go_on, prepare
from tests.bench.measure import Table, memory
from tests.bench.quorum_nodes import QUIET
from tests.e2e.calls import eventually
from tests.e2e.secured import RULES, WITH_TLS, secured_plane
from tests.fuzz.attacks import Door
from tests.interop.mixed_plan import PATIENT, SERVER, Peers
from tests.interop.mixed_quorum import kafkas_alone
from tests.network.certificates import Authority, authority
from tests.run_loop import run_loop

SECONDS: Final = float(os.environ.get("NEIGHBOURS_SECONDS", "5"))
ONLY: Final = os.environ.get("NEIGHBOURS_ONLY", "")
"""Kinds whose name has this."""
REST_S: Final = 10.0
"""After each bad caller: how long memory may take to come back before it is read."""
PAUSE_S: Final = 0.05
PATIENCE: Final = Timeouts(connect_ms=60_000, request_ms=60_000)
GOOD, BAD = "admin", "mallory"
OF_EACH: Final = 5
"""Good callers of each of the four kinds."""
MIB: Final = 1 << 20
TO_CLEAR_THE_PEAK: Final = "5"
"""What Linux takes at /proc/PID/clear_refs to begin the peak of a process's memory anew."""
CHILD: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True, kw_only=True)
class Side:
    """A node that leads: where it speaks Kafka's wire, who issues certificates, and the processes that serve it."""

    name: str
    host: str
    port: int
    issuer: Authority
    pids: Sequence[int]

    async def connect(self) -> Connection:
        """A connection of a good caller."""
        tls = self.issuer.client(self.issuer.directory / f"{GOOD}.pem")
        return await connect(self.host, self.port, tls=tls, timeouts=PATIENCE)

    @property
    def door(self) -> Door:
        """Where the bad caller comes in."""
        return Door(
            host=self.host,
            port=self.port,
            keystore=self.issuer.directory / f"{BAD}.pem",
            truststore=self.issuer.certificate,
            path="",
            speaks_kafka=True,
        )

    @property
    def peak_mib(self) -> int:
        """The most that one of its processes has had since `clear`."""
        return max(memory(pid)["peak"] for pid in self.pids) // MIB

    @property
    def now_mib(self) -> int:
        """What the largest of its processes has."""
        return max(memory(pid)["resident"] for pid in self.pids) // MIB

    def clear(self) -> None:
        """Begins the peaks anew."""
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text(TO_CLEAR_THE_PEAK)


@dataclass(slots=True)
class Waits:
    """What the good callers have met: their waits in s, and how often one had no answer, or a refusal."""

    waits: list[float] = field(default_factory=list)
    failures: int = 0


Once = Callable[[Connection], Awaitable[None]]


async def _write(client: Connection) -> None:
    topic = CreateTopicsRequest.CreatableTopic(f"good-{secrets.token_hex(8)}", 1, 1)
    answer = await client.ask_for(CreateTopicsResponse, CreateTopicsRequest((topic,), 60_000))
    if answer.topics[0].error_code:
        raise ApiError(answer.topics[0].error_code, answer.topics[0].error_message or "")


async def _read(client: Connection) -> None:
    answer = await client.ask_for(DescribeClusterResponse, DescribeClusterRequest(endpoint_type=2))
    if answer.error_code:
        raise ApiError(answer.error_code, answer.error_message or "")


async def _quorum(client: Connection) -> None:
    part = DescribeQuorumRequest.TopicData
    request = DescribeQuorumRequest(topics=(part(METADATA_TOPIC, (part.PartitionData(0),)),))
    answer = await client.ask_for(DescribeQuorumResponse, request)
    if answer.error_code:
        raise ApiError(answer.error_code, "DescribeQuorum")


async def _nothing(client: Connection) -> None:
    """What there is to wait for was the connection."""


async def _caller(side: Side, once: Once, met: Waits, *, keeps: bool) -> None:
    client: Connection | None = None
    try:
        while True:
            began = time.monotonic()
            try:
                client = client or await side.connect()
                await once(client)
                met.waits.append(time.monotonic() - began)
            except (ApiError, OSError):
                met.failures += 1
                keeps_it = False
            else:
                keeps_it = keeps
            if not keeps_it and client is not None:
                client.abort()
                client = None
            await asyncio.sleep(PAUSE_S)
    finally:
        if client is not None:
            client.abort()


@asynccontextmanager
async def good_callers(side: Side) -> AsyncIterator[Waits]:
    """Twenty of them go on while the block runs; one that still waits at its end counts with its wait so far."""
    met = Waits()
    callers = [(_write, True), (_read, True), (_quorum, True), (_nothing, False)]
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(_caller(side, once, met, keeps=keeps)) for once, keeps in callers for _ in range(OF_EACH)
        ]
        yield met
        for each in running:
            each.cancel()


async def beside(side: Side, name: str | None, others: ProcessPoolExecutor) -> tuple[Waits, int, int]:
    """What the good callers met beside one kind of bad caller (or none), the peak in MiB, and the memory after it."""
    if name is not None:
        await asyncio.get_running_loop().run_in_executor(others, prepare, name)
    side.clear()
    async with good_callers(side) as met:
        await asyncio.sleep(1)
        met.waits.clear()
        if name is None:
            await asyncio.sleep(SECONDS)
        else:
            await asyncio.get_running_loop().run_in_executor(others, go_on, side.door, name, SECONDS)
        enough = len(met.waits) + 4 * OF_EACH

        async def answered() -> bool:
            return len(met.waits) >= enough  # so whoever waited because of it has been answered

        await eventually(answered)
    peak = side.peak_mib
    await asyncio.sleep(REST_S)
    return met, peak, side.now_mib


async def measured(sides: Sequence[Side]) -> list[Table]:
    """A row for each kind: at each side longest wait, failures, peak, memory after."""
    rows: list[list[str]] = []
    data: list[dict[str, object]] = []
    with ProcessPoolExecutor(1, CHILD) as others:
        for name in (None, *(each for each in KINDS if ONLY in each)):
            cells, found = [name or "nobody"], dict[str, object](kind=name)
            for side in sides:
                met, peak, after = await beside(side, name, others)
                worst = max(met.waits, default=float("nan"))
                cells += [f"{worst * 1000:,.0f} ms", str(met.failures), f"{peak} MiB", f"{after} MiB"]
                found[side.name] = {"worst_s": worst, "failures": met.failures, "peak_mib": peak, "after_mib": after}
            print(" | ".join(cells), flush=True)
            rows.append(cells)
            data.append(found)
    columns = ["a bad caller"]
    for side in sides:
        columns += [f"{side.name}: longest wait of the good", "failures", "peak", f"after {REST_S:.0f} s"]
    return [Table(title="twenty good callers beside one bad", columns=tuple(columns), rows=rows, data=data)]


@asynccontextmanager
async def our_side(directory: Path) -> AsyncIterator[Side]:
    """Three nodes with gateways by TLS and an authorizer."""
    await asyncio.to_thread(directory.mkdir)
    async with secured_plane(directory, everywhere=WITH_TLS) as plane:
        for name in (GOOD, BAD):
            plane.issuer.issue(name, f"/O=test/CN={name}")
        leader: NodeId = await plane.cluster.leader()
        running, plan = plane.cluster.running, plane.cluster.plan
        own = (plane.cluster.quorum(leader), plane.cluster.controller(leader), plan.gateways[leader - 1])
        host, port = plane.at(leader)
        yield Side(
            name="Quorate", host="localhost", port=port, issuer=plane.issuer, pids=[running.pid(each) for each in own]
        )
        assert host == "127.0.0.1", host


@asynccontextmanager
async def kafkas_side(directory: Path) -> AsyncIterator[Side]:
    """Three controllers of a Kafka release, the same way, and a broker that has registered."""
    await asyncio.to_thread(directory.mkdir)
    issuer = authority(directory)
    for name in (GOOD, BAD):
        issuer.issue(name, f"/O=test/CN={name}")
    settings = PATIENT | {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{GOOD};User:nodes",
        "ssl.principal.mapping.rules": RULES,
    }
    peers = Peers(issuer=issuer, options=SERVER)
    async with kafkas_alone(directory / "kafkas", ours=1, kafkas=3, settings=settings, peers=peers) as kafkas:
        leader = (await kafkas.described_by_one_of(kafkas.first_voters)).leader_id
        await kafkas.unfence(at=leader)
        port = int(kafkas.kafka_address(leader).rpartition(":")[2])
        yield Side(name="Kafka", host="localhost", port=port, issuer=issuer, pids=[kafkas.kafkas[leader].pid])


async def _both(directory: Path) -> list[Table]:
    async with kafkas_side(directory / "kafka") as theirs, our_side(directory / "quorate") as ours:
        return await measured((ours, theirs))


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; about ten minutes. NEIGHBOURS_SECONDS of each kind, NEIGHBOURS_ONLY of some."""
    os.environ.update(QUIET)
    directory = Path(tempfile.mkdtemp(prefix="quorate-neighbours-"))
    try:
        return run_loop(_both(directory))
    finally:
        with suppress(OSError):
            shutil.rmtree(directory)
