"""What a commit costs here and in etcd: three members and three quorum nodes, alive at once and measured in turns.

Both are on loopback in the clear, write to the same disk with their default settings, and flush before a member's
word counts. The client speaks to the leader. That of etcd is the benchmark tool of its own people, in Go: a unary Put
in flight for each of its clients; ours is `quorum_nodes.Writer` in Python, whose appends go on one stream, as a
controller's do. So an append is cheaper to ask for than a Put; the CPU of either client is a row of its own. "Joined"
means that appends which wait together become one batch of the log; "one each" that each stays a batch by itself, as
each Put is an entry. To a joined batch the nearest thing in etcd is a Txn: so many Puts in one entry.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from deploy.local.processes import Running
from tests.bench.etcd_nodes import KEY_BYTES, KEYS, Load, Members, members
from tests.bench.measure import REPEATS, Table, calibrate, cpu_seconds, percentile, ratio_table
from tests.bench.quorum_nodes import VALUE_BYTES, Writer, quorum, value
from tests.run_loop import run_loop

SERIAL: Final = 500
FLOOD_S: Final = 2.0
WARM_UP: Final = {1: 300, 64: 6_000, 1_000: 10_000}
"""Puts before, by how many are in flight."""
TXN: Final = {64: (64, 1), 1_000: (100, 10)}
"""Puts in a Txn, at most 128 by default, and clients that have one in flight, for so many Puts in flight."""
CONNECTIONS: Final = {1: 1, 64: 4, 1_000: 10}
"""With these etcd answered most Puts, of 1, 4, 16, 64 and 1, 10, 100."""
ETCD: Final = "etcd, a Put each"
ETCD_TXN: Final = "etcd, Puts in a Txn"
JOINED: Final = "Quorate, joined"
ONE_EACH: Final = "Quorate, one each"

Found = defaultdict[str, defaultdict[str, list[float]]]


def run() -> list[Table]:
    """Needs etcd and its benchmark tool, which Go builds once; some two minutes."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    found: Found = defaultdict(lambda: defaultdict(list))
    loops = []
    async with members() as theirs, quorum() as (plan, running), Writer(plan.quorum) as writer:
        await writer.active()
        etcd, ours = _Etcd(theirs), _Ours(writer, running)
        rates = await etcd.warm_up()
        await ours.warm_up()
        for _ in range(REPEATS):
            loops.append(calibrate())
            await etcd.round(found, rates)
            await ours.round(found)
        assert not writer.refusals, writer.refusals
    title = (
        f"Beside etcd {theirs.version}: {VALUE_BYTES} bytes, durable on a majority of three; medians of {REPEATS} "
        f"rounds in turns; calibration loop {statistics.median(loops) * 1000:.0f} ms"
    )
    return [ratio_table(title, "commits", found, (ETCD, ETCD_TXN, JOINED, ONE_EACH))]


@dataclass(frozen=True, slots=True)
class _Etcd:
    members: Members

    async def warm_up(self) -> dict[int, float]:
        """Puts a second, by how many are in flight."""
        return {in_flight: (await self._puts(in_flight, total)).rate for in_flight, total in WARM_UP.items()}

    async def round(self, found: Found, rates: dict[int, float]) -> None:
        _keep(found, 1, ETCD, await self._puts(1, SERIAL))
        for in_flight, (puts, clients) in TXN.items():
            total = int(rates[in_flight] * FLOOD_S)
            _keep(found, in_flight, ETCD, await self._puts(in_flight, total))
            _keep(found, in_flight, ETCD_TXN, await self._transactions(puts, clients, total))

    async def _puts(self, in_flight: int, total: int) -> Load:
        keys = ("--sequential-keys", "--key-space-size", str(KEYS), "--val-size", str(VALUE_BYTES - KEY_BYTES))
        conns = CONNECTIONS[in_flight]
        return await self.members.load("put", *keys, clients=in_flight, conns=conns, total=total)

    async def _transactions(self, puts: int, clients: int, total: int) -> Load:
        """As many Puts, so many in each Txn; figures are of a Put, as each is answered with its Txn."""
        options = ("--txn-ops", str(puts), "--key-space-size", str(KEYS), "--val-size", str(VALUE_BYTES - KEY_BYTES))
        load = await self.members.load("txn-put", *options, clients=clients, conns=clients, total=max(1, total // puts))
        return Load(
            rate=load.rate * puts,
            p50_s=load.p50_s,
            p99_s=load.p99_s,
            cpu_s=load.cpu_s / puts,
            client_cpu_s=load.client_cpu_s / puts,
        )


@dataclass(frozen=True, slots=True)
class _Ours:
    writer: Writer
    running: Running

    async def warm_up(self) -> None:
        for _ in range(WARM_UP[1]):
            await self.writer.commit(value())
        for in_flight in TXN:
            await self.writer.flood(value(), in_flight=in_flight, seconds=FLOOD_S / 2)

    async def round(self, found: Found) -> None:
        used, own = self._used(), time.process_time()
        took = [await self.writer.commit(value()) for _ in range(SERIAL)]
        _keep(found, 1, JOINED, self._load(SERIAL / sum(took), took, used, own))
        for in_flight in TXN:
            for name, may_join in ((JOINED, True), (ONE_EACH, False)):
                used, own = self._used(), time.process_time()
                rate, took = await self.writer.flood(value(), in_flight=in_flight, seconds=FLOOD_S, may_join=may_join)
                _keep(found, in_flight, name, self._load(rate, took, used, own))

    def _load(self, rate: float, took: list[float], used: float, own: float) -> Load:
        return Load(
            rate=rate,
            p50_s=statistics.median(took),
            p99_s=percentile(took, 99),
            cpu_s=(self._used() - used) / len(took),
            client_cpu_s=(time.process_time() - own) / len(took),
        )

    def _used(self) -> float:
        return sum(cpu_seconds(self.running.pid(node)) for node in self.running.plan.quorum)


def _keep(found: Found, in_flight: int, name: str, load: Load) -> None:
    head = "one at a time" if in_flight == 1 else f"{in_flight:,} in flight"
    if in_flight > 1:
        found[f"{head}, commits/s"][name].append(load.rate)
    found[f"{head}, p50"][name].append(load.p50_s)
    found[f"{head}, p99"][name].append(load.p99_s)
    found[f"{head}, CPU of the members"][name].append(load.cpu_s)
    found[f"{head}, CPU of the client"][name].append(load.client_cpu_s)
