"""P17: what observers cost the leader, and how far they are behind: at the leader, at followers, and at a relay.

A relay is an observer service with `observer.log.relay`, which reads from followers and asks them for what it is asked.
The observers themselves are one process (`quorum_observing`), and share the machine with the quorum.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from deploy.local.plan import Process
from deploy.local.processes import Running
from tests.bench.measure import REPEATS, Table, cpu_seconds, ms, us
from tests.bench.quorum_nodes import QUIET, Writer, quorum, value
from tests.bench.quorum_observing import Seen, lags, observers
from tests.run_loop import run_loop

COUNTS: Final = {0: 0.0, 10: 0.05, 100: 0.15}
"""How many there are, and what they may cost."""
ROUNDS: Final = int(os.environ.get("OBSERVER_ROUNDS", str(REPEATS)))
IN_FLIGHT: Final = 64
FLOOD_S: Final = 2.0
WARM_UP_S: Final = 1.0
SERIAL: Final = 200
LEADER: Final = "the leader"
FOLLOWERS: Final = "the followers"
RELAY: Final = "a relay"


@dataclass(slots=True)
class Found:
    """What was measured with so many observers in one place; a value for each round, of lags for each that was seen."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    cpu_serial: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    lags_serial: list[float] = field(default_factory=list)
    broken: int = 0


def run() -> list[Table]:
    """The same load with none, some, many; in turns, so that a busy minute meets all of them."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    found: defaultdict[tuple[str, int], Found] = defaultdict(Found)
    for _ in range(ROUNDS):
        # A quorum for each round: a relay applies the log from its beginning.
        async with quorum() as (plan, running), Writer(plan.quorum) as writer:
            await writer.active()
            assert writer.leader is not None
            await writer.flood(value(), in_flight=IN_FLIGHT, seconds=WARM_UP_S)
            followers = [node for node in plan.quorum if node is not writer.leader]
            async with _relay(running, followers) as relay:
                for count in COUNTS:
                    await _load(found[RELAY, count], writer, running, [relay], count)
            for count in COUNTS:
                await _load(found[LEADER, count], writer, running, [writer.leader], count)
                if count:
                    await _load(found[FOLLOWERS, count], writer, running, followers, count)
            assert not writer.refusals, writer.refusals
    return [_table(found)]


@asynccontextmanager
async def _relay(running: Running, followers: list[Process]) -> AsyncIterator[Process]:
    """The plan's observer as a relay, which asks these nodes, until the block ends."""
    relay = running.plan.observer
    servers = ",".join(node.address for node in followers)
    asked = {"observer.log.relay": "true", "observer.fetch.from.any": "true"}
    relay.settings.update({**asked, "controller.quorum.bootstrap.servers": servers})
    await running.spawn(relay, environ=QUIET)
    await running.ready([relay])
    yield relay
    await running.kill(relay)


async def _load(found: Found, writer: Writer, running: Running, at: list[Process], count: int) -> None:
    """Many in flight, then one at a time, with so many observers at these processes."""
    assert writer.leader is not None
    leader = running.pid(writer.leader)
    told: Seen = []
    told_serial: Seen = []
    async with observers(
        [each.address for each in at],
        count,
        is_relayed=at != [writer.leader],
        start=writer.committed,
        epoch=writer.epoch,
    ) as observed:
        writer.heard = lambda committed: told.append((committed, time.monotonic()))
        before = cpu_seconds(leader)
        rate, took = await writer.flood(value(), in_flight=IN_FLIGHT, seconds=FLOOD_S)
        found.rates.append(rate)
        found.cpu.append((cpu_seconds(leader) - before) / len(took))
        writer.heard = lambda committed: told_serial.append((committed, time.monotonic()))
        before = cpu_seconds(leader)
        found.commits += [await writer.commit(value()) for _ in range(SERIAL)]
        found.cpu_serial.append((cpu_seconds(leader) - before) / SERIAL)
    found.lags += lags(told, observed.seen)
    found.lags_serial += lags(told_serial, observed.seen)
    found.broken += observed.broken


def _table(found: defaultdict[tuple[str, int], Found]) -> Table:
    alone = found[LEADER, 0]
    rows, data = [], []
    for (place, count), each in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        is_alone = each is alone
        loss = statistics.median(1 - rate / other for rate, other in zip(each.rates, alone.rates, strict=True))
        cost = statistics.median(cpu / other - 1 for cpu, other in zip(each.cpu, alone.cpu, strict=True))
        rows.append(
            (
                str(count),
                "none" if is_alone else place,
                f"{statistics.median(each.rates):,.0f}",
                "" if is_alone else f"{loss:.0%}",
                us(statistics.median(each.cpu)),
                "" if is_alone else f"{cost:+.0%}",
                f"≤ {COUNTS[count]:.0%} (P17)" if count else "",
                _median(each.lags),
                us(statistics.median(each.cpu_serial)),
                _median(each.commits),
                _median(each.lags_serial),
                str(each.broken) if count else "",
            )
        )
        data.append(
            {
                "observers": count,
                "at": place,
                "rates": each.rates,
                "loss": loss,
                "cpu_s": each.cpu,
                "cpu_serial_s": each.cpu_serial,
                "lag_s": statistics.median(each.lags or [0.0]),
                "lag_serial_s": statistics.median(each.lags_serial or [0.0]),
                "broken": each.broken,
            }
        )
    columns = (
        *("observers", "at", "appends/s", "loss", "CPU of the leader", "more", "target", "lag"),
        *("CPU of the leader, one at a time", "commit p50", "lag, one at a time", "streams broken"),
    )
    title = f"P17: {IN_FLIGHT} appends in flight and one at a time, with observers; {ROUNDS} rounds in turns"
    return Table(title=title, columns=columns, rows=rows, data=data)


def _median(seconds: list[float]) -> str:
    return ms(statistics.median(seconds)) if seconds else ""
