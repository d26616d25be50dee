"""How long a broker of Kafka takes to start on 100,000 partitions in the log of our control plane, and of Kafka's.

The partitions are those of other brokers, which are stand-ins: so the broker that starts has no logs to open, and what
it waits for is the metadata. It starts twice: new, when it fetches all of the log, and after a controlled shutdown,
when it has the log. Before the topics are there one starts for comparison. The heap of a broker is 256 MiB.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from itertools import count
from typing import Final

from deploy.kafka.release import SERVER
from quorate.nouns import NodeId
from tests.bench.beside_kafka import by_wire, created, wanted
from tests.bench.both_sides import DEFAULTS, Rounds, run_both
from tests.bench.measure import Table, cpu_seconds, ratio_table
from tests.bench.stand_ins import beating
from tests.interop.busy_brokers import Brokers
from tests.interop.mixed_quorum import MixedQuorum

ROUNDS: Final = int(os.environ.get("BROKER_ROUNDS", "3"))
TOPICS, PARTITIONS = 100, 1_000
FIRST_ID: Final = 201
SIDES: Final = ("Kafka's controllers", "Quorate")


def run() -> list[Table]:
    """Needs a JDK 17 and Maven; some minutes."""
    return run_both(_measure, DEFAULTS)


async def _measure(kafkas: MixedQuorum, ours: MixedQuorum, life: AsyncExitStack) -> list[Table]:
    rounds, numbers, ids = Rounds(ROUNDS), count(), count(FIRST_ID)
    quorums = dict(zip(SIDES, (kafkas, ours), strict=True))
    for name, quorum in quorums.items():
        await life.enter_async_context(beating(quorum))
        side = await by_wire(name, quorum, quorum.first_voters, life)
        rounds.add(name, {"of an empty cluster": (await _started(quorum, next(ids)))["new"]})
        for _ in range(TOPICS):
            await created(side, 0, wanted(numbers, partitions=PARTITIONS))
    for _ in rounds:
        for name, quorum in quorums.items():
            rounds.add(name, await _started(quorum, next(ids)))
    title = f"A broker of Kafka starts, {TOPICS * PARTITIONS:,} partitions of RF 3 in the log: {rounds.told}"
    return [ratio_table(title, "until it is unfenced", rounds.found, SIDES)]


async def _started(quorum: MixedQuorum, broker_id: NodeId) -> dict[str, float]:
    """Seconds until a new broker is unfenced, and until it is so again."""
    brokers = Brokers(quorum, [broker_id], quorum.first_voters, options=SERVER)
    node, figures = brokers.nodes[broker_id], {}
    try:
        await asyncio.to_thread(node.format, quorum.plan.cluster_id)
        for how in ("new", "again"):
            used, began = sum(map(cpu_seconds, quorum.pids)), time.perf_counter()
            node.start()
            await asyncio.to_thread(node.wait_ready)
            figures[how] = time.perf_counter() - began
            figures[f"{how}, CPU of the control plane"] = sum(map(cpu_seconds, quorum.pids)) - used
            figures[f"{how}, CPU of the broker"] = cpu_seconds(node.pid)
            await asyncio.to_thread(node.stop)
    finally:
        await brokers.close()
    return figures
