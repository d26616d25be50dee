"""How long twenty good callers wait beside bad ones, at our services and at a Kafka controller: `make neighbours`.

All speak by TLS with certificates, to the node that leads, with an authorizer. Bad callers (`bad_kinds`) have processes
of their own. Beside those at Kafka's wire the good ones speak Kafka's wire, here and at Kafka's controllers; beside
those at a broker of ours they write to it and read from it; beside the others they speak gRPC, and log in. A wait
includes the connection where there is none.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.network.client import Connection, connect
from tests.bench.bad_kinds import KINDS, TEN_BY_GRPC, TEN_BY_WIRE, go_on_for, prepare
from tests.bench.bad_neighbours import BAD, WIRE, Doors, Ends
from tests.bench.bad_neighbours_broker import AT_GRPC, AT_LOGINS, AT_WIRE
from tests.bench.good_neighbours import PATIENCE, Beside, Good, Waits, at_broker, by_grpc, by_wire, going_on
from tests.bench.measure import Table, memory
from tests.bench.neighbours_plane import GOOD, USERS, like_the_charts
from tests.bench.quorum_nodes import QUIET
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.secured import RULES
from tests.interop.mixed_plan import PATIENT, SERVER, Peers
from tests.interop.mixed_quorum import kafkas_alone
from tests.network.certificates import Authority, authority
from tests.run_loop import run_loop

SECONDS: Final = float(os.environ.get("NEIGHBOURS_SECONDS", "5"))
ONLY: Final = os.environ.get("NEIGHBOURS_ONLY", "")
"""Kinds whose name has one of these, which stand between bars."""
BACK_S: Final = 60.0
"""How long memory may take to come back."""
BACK_MIB: Final = 20
"""What a process may keep, beside what it had before."""
VOTERS: Final = 3
MIB: Final = 1 << 20
TO_CLEAR_THE_PEAK: Final = "5"
"""What Linux takes at /proc/PID/clear_refs to begin the peak of a process's memory anew."""
CHILD: Final = multiprocessing.get_context("spawn")
AT_A_BROKER: Final = (AT_WIRE, AT_LOGINS, AT_GRPC)
WAIT_MS_MAX: Final = 500
TEN_WAIT_MS_MAX: Final = 2_000
"""The targets, of issue S: the longest wait beside one bad caller, and beside ten at once."""


def peaks(pids: Mapping[str, int]) -> dict[str, int]:
    """The most that each process has had since `clear_peaks`, in MiB."""
    return {name: memory(pid)["peak"] // MIB for name, pid in pids.items()}


def sizes(pids: Mapping[str, int]) -> dict[str, int]:
    """What each process has, in MiB."""
    return {name: memory(pid)["resident"] // MIB for name, pid in pids.items()}


def clear_peaks(pids: Mapping[str, int]) -> None:
    """Begins the peaks anew."""
    for pid in pids.values():
        Path(f"/proc/{pid}/clear_refs").write_text(TO_CLEAR_THE_PEAK)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A node that leads: its doors, its processes by name with their memory limits in MiB, and its good callers.

    `good` makes those who are asked for beside a row of bad ones.
    """

    name: str
    doors: Doors
    pids: Mapping[str, int]
    limits: Mapping[str, int]
    good: Callable[[Beside], list[Good]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The bad callers of a row: their name, and the kinds, which are at work at once."""

    name: str
    kinds: tuple[str, ...] = ()
    beside: Beside = Beside.WIRE

    @property
    def wait_ms_max(self) -> int:
        """The target for the longest wait."""
        return TEN_WAIT_MS_MAX if len(self.kinds) > 1 else WAIT_MS_MAX


def beside_kind(name: str) -> Beside:
    """Which good callers meet a kind of bad ones."""
    if name in WIRE:
        return Beside.WIRE
    return Beside.BROKER if KINDS[name].at in AT_A_BROKER else Beside.GRPC


ROWS: Final = (
    Row(name="nobody"),
    Row(name="nobody, by gRPC", beside=Beside.GRPC),
    Row(name="nobody, at a broker of ours", beside=Beside.BROKER),
    *(Row(name=name, kinds=(name,), beside=beside_kind(name)) for name in KINDS),
    Row(name="ten at once, by Kafka's wire", kinds=TEN_BY_WIRE),
    Row(name="ten at once, by gRPC and logins", kinds=TEN_BY_GRPC, beside=Beside.GRPC),
    Row(name="nobody, after all", beside=Beside.GRPC),
)


@dataclass(kw_only=True)
class Found:
    """What was found of one row at one side; memory in MiB by process."""

    waits: Waits
    ends: dict[str, Ends]
    before: Mapping[str, int]
    peak: Mapping[str, int]
    limits: Mapping[str, int]
    after: Mapping[str, int] = field(default_factory=dict)
    back_s: float | None = None

    @property
    def worst_ms(self) -> float:
        return max(self.waits.waits, default=(float("nan"), ""))[0] * 1_000

    @property
    def kept(self) -> dict[str, int]:
        """What each process has more than before, if that is too much."""
        more = {name: now - self.before[name] for name, now in self.after.items()}
        return {name: mib for name, mib in more.items() if mib > BACK_MIB}

    def cells(self) -> list[str]:
        """Longest wait, failures, the peak of the process that has grown most, and when memory was back."""
        name = max(self.peak, key=lambda each: self.peak[each] - self.before[each])
        who = max(self.waits.waits, default=(0.0, "nobody"))[1]
        cells = [f"{self.worst_ms:,.0f} ms ({who})", str(self.waits.failures.total())]
        if not self.limits:
            return [*cells, f"{self.peak[name]} MiB"]
        kept = ", ".join(f"{name} +{mib}" for name, mib in self.kept.items())
        back = f"no: {kept} MiB" if self.back_s is None else f"{self.back_s:.0f} s"
        above = " **above**" if any(self.peak[each] > limit for each, limit in self.limits.items()) else ""
        grown = f"{name.rpartition('-')[0]}: {self.before[name]} to {self.peak[name]} of {self.limits[name]} MiB"
        return [*cells, grown + above, back, self.ended]

    @property
    def ended(self) -> str:
        """How the attempts of the bad callers have ended, and which kind has not done what it is for."""
        told = [f"{count:,} {end}" for end, count in sum(self.ends.values(), Ends()).most_common()]
        idle = [name for name, ends in self.ends.items() if not KINDS[name].ends <= ends.keys()]
        return ", ".join([*told, *(f"**not done**: {name}" for name in idle)])

    def data(self) -> dict[str, object]:
        """For machines."""
        return {
            "worst_ms": self.worst_ms,
            "worst_ms_of_each": {who: 1_000 * wait for wait, who in sorted(self.waits.waits)},
            "answers": len(self.waits.waits),
            "failures": dict(self.waits.failures),
            "ends": {name: dict(ends) for name, ends in self.ends.items()},
            "before_mib": self.before,
            "peak_mib": self.peak,
            "after_mib": self.after,
            "back_s": self.back_s,
        }


async def beside(side: Side, row: Row, others: Sequence[ProcessPoolExecutor]) -> Found:
    """What the good callers met beside the bad ones of a row, what became of these, and memory."""
    shares = [row.kinds[place :: len(others)] for place in range(len(others))]
    loop = asyncio.get_running_loop()
    for other, share in zip(others, shares, strict=True):
        await loop.run_in_executor(other, prepare, share)
    before = sizes(side.pids)
    clear_peaks(side.pids)
    callers = side.good(row.beside)
    async with going_on(callers) as met:
        await asyncio.sleep(1)
        met.waits.clear()
        ends: dict[str, Ends] = {}
        if row.kinds:
            working = [
                loop.run_in_executor(other, go_on_for, side.doors, share, SECONDS)
                for other, share in zip(others, shares, strict=True)
                if share
            ]
            for each in await asyncio.gather(*working):
                ends |= each
        else:
            await asyncio.sleep(SECONDS)
        seen = Counter(met.ended)

        async def answered() -> bool:
            return all(met.ended[place] > seen[place] for place in range(len(callers)))

        try:
            await eventually(answered)  # so each caller that waited because of it has been answered
        except AssertionError:
            met.failures[f"no answer within {WITHIN_S:g} s"] += 1
    found = Found(waits=met, ends=ends, before=before, peak=peaks(side.pids), limits=side.limits)
    await _come_back(side, found)
    return found


async def _come_back(side: Side, found: Found) -> None:
    """Waits until the memory of each process is back; not for a JVM, which keeps its heap."""
    began = asyncio.get_running_loop().time()
    while True:
        found.after = sizes(side.pids)
        waited = asyncio.get_running_loop().time() - began
        if not found.kept:
            found.back_s = waited
        if not found.kept or not side.limits or waited > BACK_S:
            return
        await asyncio.sleep(0.5)


async def measured(sides: Sequence[Side]) -> list[Table]:
    """A row for each kind, and for ten at once."""
    rows: list[list[str]] = []
    data: list[dict[str, object]] = []
    with ProcessPoolExecutor(1, CHILD) as one, ProcessPoolExecutor(1, CHILD) as other:
        for row in ROWS:
            if not any(each in row.name for each in ONLY.split("|")):
                continue
            cells, found = [row.name], dict[str, object](kind=row.name)
            for side in sides:
                if row.beside is Beside.WIRE or side.limits:
                    met = await beside(side, row, (one, other) if len(row.kinds) > 1 else (one,))
                    cells += met.cells()
                    found[side.name] = met.data()
                    missed = met.worst_ms > row.wait_ms_max and bool(side.limits)
                    cells[0] += " **missed**" if missed else ""
                else:
                    cells += ["–"] * 3
            print(" | ".join(cells), flush=True)
            rows.append(cells)
            data.append(found)
    columns = ["bad callers"]
    for side in sides:
        columns += [
            f"{side.name}: longest wait of the good",
            "failures",
            "grown most",
            *(["back", "how the bad ended"] if side.limits else []),
        ]
    return [Table(title="twenty good callers beside bad ones", columns=tuple(columns), rows=rows, data=data)]


@asynccontextmanager
async def our_side(directory: Path, *, voters: int = VOTERS, users: int = USERS) -> AsyncIterator[Side]:
    """A plane like the chart's."""
    async with like_the_charts(directory, voters=voters, users=users) as plane:
        tls = plane.issuer.client(plane.issuer.directory / f"{GOOD}.pem")
        wire = partial(connect, plane.doors.host, plane.doors.ports["gateway"], tls=tls, timeouts=PATIENCE)
        yield Side(
            name="Quorate",
            doors=plane.doors,
            pids=plane.pids,
            limits=plane.limits_mib,
            good=lambda beside: {
                Beside.WIRE: partial(by_wire, wire),
                Beside.GRPC: partial(by_grpc, plane),
                Beside.BROKER: partial(at_broker, plane),
            }[beside](),
        )


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
        yield Side(
            name="Kafka",
            doors=Doors(host="localhost", ports={"gateway": port}, directory=directory, truststore=issuer.certificate),
            pids={"controller": kafkas.kafkas[leader].pid},
            limits={},
            good=lambda _: by_wire(partial(_to_kafka, issuer, port)),
        )


async def _to_kafka(issuer: Authority, port: int) -> Connection:
    tls = issuer.client(issuer.directory / f"{GOOD}.pem")
    return await connect("localhost", port, tls=tls, timeouts=PATIENCE)


async def _both(directory: Path) -> list[Table]:
    async with kafkas_side(directory / "kafka") as theirs, our_side(directory / "quorate") as ours:
        return await measured((ours, theirs))


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; a quarter of an hour. NEIGHBOURS_SECONDS of each kind, NEIGHBOURS_ONLY of some."""
    os.environ.update(QUIET)
    directory = Path(tempfile.mkdtemp(prefix="quorate-neighbours-"))
    try:
        return run_loop(_both(directory))
    finally:
        with suppress(OSError):
            shutil.rmtree(directory)
