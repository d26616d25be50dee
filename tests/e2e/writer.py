"""A client that writes all the time, what it was promised, and whether the cluster keeps it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId
from quorate.raft.roles import Leader
from quorate.runtime.requests.statuses import is_retriable
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, stored_topics
from tests.e2e.offline import scan

MORE = 5
"""So many writes show that writes go on."""
NEXT_COMMIT = "s to the next commit"
"""The figure that each story of a lost leader measures; 3 x election timeout + 1 s is the goal, 4 s by default."""
DEADLINE_MS = 2_000
BETWEEN_S = 0.03
"""A cluster can do more; but each topic is to be looked for at the end."""
PAUSE_S = 0.05
LOOKED_BACK = 10
"""A read asks for so many topics, the last that were acknowledged."""


class Writer:
    """Creates topics one after the other at each controller, and notes which are acknowledged.

    A request that failed is not sent again under the same name, so a topic that is there twice was written twice.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.tried: list[str] = []
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.failed: Counter[str] = Counter()
        self.stale: list[str] = []
        self.reads: Counter[NodeId] = Counter()
        self._cluster = cluster
        self._writes: list[tuple[float, float]] = []

    async def run(self, prefix: str, door: NodeId) -> None:
        """Until cancelled."""
        while True:
            name = f"{prefix}-{len(self.tried)}"
            self.tried.append(name)
            try:
                await self._create(name, door)
            except ApiError as error:
                self.failed[error.code.name] += 1
                if not is_retriable(error):
                    self.refused.append(f"{name}: {error}")
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(BETWEEN_S)

    async def _create(self, name: str, door: NodeId) -> None:
        begun_s = self.now_s
        answer = await self._cluster.create_once(name, at=door, deadline_ms=DEADLINE_MS)
        code = ErrorCode(answer.topics[0].error_code)
        if code:
            self.refused.append(f"{name}: {code.name}")
            return
        self.acknowledged.append(name)
        self._writes.append((begun_s, self.now_s))

    async def watch(self, door: NodeId) -> None:
        """Reads at one controller until cancelled: an answer must know what was acknowledged before the question."""
        while True:
            names = self.acknowledged[-LOOKED_BACK:]
            try:
                known = await self._cluster.known(names, at=door, deadline_ms=DEADLINE_MS)
                self.stale += [f"{name} is not known to {door}" for name in names if name not in known]
                self.reads[door] += 1
            except ApiError as error:
                if not is_retriable(error):
                    self.refused.append(f"read at {door}: {error}")
            await asyncio.sleep(PAUSE_S)

    @property
    def now_s(self) -> float:
        """The clock of `next_commit_s`."""
        return asyncio.get_running_loop().time()

    async def goes_on(self, more: int = MORE) -> None:
        """Until some more are acknowledged."""
        count = len(self.acknowledged) + more
        await eventually(self._count, lambda acknowledged: acknowledged >= count)

    async def next_commit_s(self, since_s: float) -> float:
        """How long after `since_s` the first write was acknowledged that began after it."""

        async def first() -> float | None:
            return min((ended_s for begun_s, ended_s in self._writes if begun_s >= since_s), default=None)

        ended_s = await eventually(first, lambda found: found is not None)
        assert ended_s is not None
        return ended_s - since_s

    def longest_gap_s(self) -> float:
        """The longest time between two acknowledgements of any writers."""
        ends = sorted(ended_s for _, ended_s in self._writes)
        return max((later - earlier for earlier, later in pairwise(ends)), default=0.0)

    async def _count(self) -> int:
        return len(self.acknowledged)


@asynccontextmanager
async def writing(writer: Writer, prefix: str) -> AsyncIterator[None]:
    """Writes and reads go on for the length of the block, and writes do so at its end."""
    work = [asyncio.ensure_future(writer.run(prefix, door)) for door in VOTERS]
    work += [asyncio.ensure_future(writer.watch(door)) for door in VOTERS]
    try:
        await writer.goes_on()
        yield
        await writer.goes_on()
    finally:
        for each in work:
            each.cancel()
        for result in await asyncio.gather(*work, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError), result


async def caught_up(cluster: Cluster) -> None:
    """Every voter has all that the leader knows to be committed, and all name the same leader."""
    door = await cluster.active()

    async def behind() -> list[int]:
        quorum = await cluster.describe_quorum(door)
        return [each.replica_id for each in quorum.current_voters if each.log_end_offset < quorum.high_watermark]

    async def leaders() -> set[tuple[int, int]]:
        views = [await cluster.find(node_id) for node_id in VOTERS]
        return {(view.leader_id, view.leader_epoch) for view in views}

    await eventually(behind, lambda those: not those)
    await eventually(leaders, lambda named: len(named) == 1 and min(named)[0] in VOTERS)
    leading = [node_id for node_id in VOTERS if (await cluster.find(node_id)).role == Leader.__name__]

    assert 1 == len(leading)


async def check(cluster: Cluster, writer: Writer) -> None:
    """Everybody tells of each acknowledged topic, and of none that nobody asked for."""
    for door in VOTERS:
        told = await cluster.topics(at=door)

        assert set() == set(writer.acknowledged) - told.keys()
        assert set() == told.keys() - set(writer.tried)
    await eventually(cluster.topics, lambda told: set(writer.acknowledged) <= told.keys())

    assert [] == writer.refused
    assert [] == writer.stale


async def check_disks(cluster: Cluster, writer: Writer) -> None:
    """With nobody left to tell it, the disks of all voters tell the same story, and each acknowledged topic in it.

    No topic is written twice.
    """
    await caught_up(cluster)
    await cluster.end_voters()
    found = scan([cluster.plan.log_dir(node_id) for node_id in VOTERS], cluster_id=cluster.plan.cluster_id)

    assert set() == set(writer.acknowledged) - found.topics
    assert set() == found.topics - set(writer.tried)
    for node_id in VOTERS:
        stored = stored_topics(cluster.plan.log_dir(node_id))

        assert sorted(set(stored)) == sorted(stored)
