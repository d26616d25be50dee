"""A control plane under load, what strikes it, and what is judged at the end."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from quorate.records import BrokerRegistrationChangeRecord
from tests.e2e.cluster import VOTERS, Cluster, stored_records, stored_topics
from tests.e2e.offline import scan
from tests.e2e.writer import Writer, caught_up, writing
from tests.shows.door_brokers import beating
from tests.shows.table import Asked, Row

SESSION_S: Final = 9.0
"""Kafka's default of `broker.session.timeout.ms`."""
SHORT_CALM_S: Final = 1.0
LOOK_S: Final = 0.05
SHOWN: Final = 3
"""So many of one kind of thing that is wrong are named."""


class Scene:
    """A control plane with writers at its controllers, and brokers at its gateways and its heartbeat service."""

    def __init__(self, show: str, cluster: Cluster, writer: Writer, asked: Asked) -> None:
        self.cluster = cluster
        self.random = asked.random
        self.asked = asked
        self.times = 0
        self._show = show
        self._writer = writer

    @asynccontextmanager
    async def strike(self, what: str) -> AsyncIterator[None]:
        """The block is one fault; after it writes go on, and every voter has all that was committed."""
        print(f"{self._show}: {what}", flush=True)
        yield
        ended_s = self._writer.now_s
        await self._writer.goes_on()
        await caught_up(self.cluster)
        self.times += 1
        calm_s = self._writer.now_s - ended_s
        count = len(self._writer.acknowledged)
        print(f"{self._show}: {self.times} done, all as before {calm_s:.1f} s later; {count} acknowledged", flush=True)


async def under_load(show: str, cluster: Cluster, asked: Asked, strikes: Callable[[Scene], Awaitable[None]]) -> Row:
    """Has the strikes done on a cluster that has started, and judges it; its voters have ended then."""
    writer = Writer(cluster)
    scene = Scene(show, cluster, writer, asked)
    async with beating(cluster, session_s=SESSION_S), _standing_still() as held, writing(writer, show):
        await strikes(scene)
        # Who was not heard during the last strike would be fenced by then.
        await asyncio.sleep(SHORT_CALM_S if asked.is_short else SESSION_S + SHORT_CALM_S)
        fenced = await _fencings(cluster)
    wrong = [f"this command itself stood still for {held[0]:.1f} s"] * (held[0] >= SESSION_S / 2)
    missing = await _missing_at_doors(cluster, writer, wrong)
    missing |= await _missing_on_disks(cluster, writer, wrong)
    return Row(
        show=show,
        times=scene.times,
        acknowledged=len(writer.acknowledged),
        lost=len(missing),
        fenced=fenced.total(),
        gap_s=writer.longest_gap_s(),
        wrong=[
            *wrong,
            *_named(writer.refused, "refused for good"),
            *_named(writer.stale, "stale"),
            *_named([f"{broker_id}, {count} times" for broker_id, count in fenced.items()], "fenced"),
        ],
    )


@asynccontextmanager
async def _standing_still() -> AsyncIterator[list[float]]:
    """How long this program's own loop stood still at the longest: so long its brokers were silent."""
    longest = [0.0]
    loop = asyncio.get_running_loop()

    async def look() -> None:
        while True:
            before_s = loop.time()
            await asyncio.sleep(LOOK_S)
            longest[0] = max(longest[0], loop.time() - before_s - LOOK_S)

    task = asyncio.ensure_future(look())
    try:
        yield longest
    finally:
        task.cancel()


async def _fencings(cluster: Cluster) -> Counter[int]:
    """How often each broker was fenced, by the log of the active controller."""
    records = await asyncio.to_thread(stored_records, cluster.plan.log_dir(await cluster.active()))
    changes = [each for each in records if isinstance(each, BrokerRegistrationChangeRecord)]
    return Counter(each.broker_id for each in changes if each.fenced > 0)


async def _missing_at_doors(cluster: Cluster, writer: Writer, wrong: list[str]) -> set[str]:
    """The acknowledged topics that some controller does not know."""
    await caught_up(cluster)
    missing: set[str] = set()
    for door in VOTERS:
        told = await cluster.topics(at=door)
        missing |= set(writer.acknowledged) - told.keys()
        wrong += _named(sorted(told.keys() - set(writer.tried)), f"asked for by nobody, at {door}")
    return missing


async def _missing_on_disks(cluster: Cluster, writer: Writer, wrong: list[str]) -> set[str]:
    """The acknowledged topics that are not in the logs of all voters, which are held against each other."""
    log_dirs = [cluster.plan.log_dir(node_id) for node_id in VOTERS]
    try:
        await cluster.end_voters()
        found = await asyncio.to_thread(scan, log_dirs, cluster_id=cluster.plan.cluster_id)
    except AssertionError as problem:
        wrong.append(what_of(problem))
        return set()
    for node_id, log_dir in zip(VOTERS, log_dirs, strict=True):
        counts = Counter(stored_topics(log_dir))
        wrong += _named([name for name, count in counts.items() if count > 1], f"written twice at {node_id}")
    return set(writer.acknowledged) - found.topics


def what_of(problem: BaseException) -> str:
    """What an error says, or the line that raised it: an assertion need not say anything."""
    *_, last = traceback.extract_tb(problem.__traceback__)
    return str(problem).strip().partition("\n")[0] or f"not so: {last.line} ({last.name})"


def _named(those: Sequence[str], what: str) -> list[str]:
    more = f" and {len(those) - SHOWN} more" if len(those) > SHOWN else ""
    return [f"{what}: {', '.join(those[:SHOWN])}{more}"] if those else []
