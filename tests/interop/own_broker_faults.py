"""Faults of brokers, with ours among them and of Kafka's alone: `python -m tests.interop.own_broker_faults`.

Three brokers on our control plane, under three idempotent producers with acks=all and two partitions each. On one side
two of the brokers are ours and one is Kafka's, in one ISR; on the other all are Kafka's. The same faults, drawn from a
seed, strike the same broker ids: SIGKILL, SIGTERM, SIGSTOP for a while. Nothing is struck before every broker is in
every ISR and leads the two partitions that prefer it. Every acknowledged record must be there once, nothing may be
refused, and in the end the logs of the three replicas have the same bytes. Printed is how long records wait for their
acknowledgement: of the longest wait after each fault the median and the longest.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final

import confluent_kafka
from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient

from quorate.nouns import NodeId
from tests.e2e.calls import eventually
from tests.e2e.own_brokers import OwnBrokers
from tests.interop.broker_faults import (
    BROKER,
    BROKERS,
    HOW,
    PAUSE,
    PAUSE_S,
    VOTERS,
    Fault,
    Faults,
    kept_if_wrong,
    strike_kafka,
)
from tests.interop.busy_brokers import ASK_S, PARTITIONS, WITHIN_S, Brokers, Writer, at_work
from tests.interop.mixed_quorum import MixedQuorum, ours_first
from tests.run_loop import run_loop

OURS: Final = (101, 102)
TOPICS: Final = ("first", "second", "third")
CALM_S: Final = 0.5
DOWN_S: Final = 1.0
FETCH_TIMEOUT_MS: Final = 10_000
"""Of the quorum's nodes: this is not about their failover."""
ELECTIONS: Final = ("preferred elections", "all")
SESSION_MS: Final = 3_000
BEAT_MS: Final = 500


class BrokersWithOurs(Brokers):
    """`ours` are brokers of our own, the others of BROKERS are Kafka's."""

    def __init__(self, quorum: MixedQuorum, ours: Sequence[NodeId]) -> None:
        settings = {"broker.heartbeat.interval.ms": BEAT_MS}
        super().__init__(quorum, [each for each in BROKERS if each not in ours], quorum.ours, settings)
        gateways = ",".join(each.kafka_address for each in quorum.plan.gateways)
        self.own = OwnBrokers(quorum, ours, settings={"gateway.endpoints": gateways})
        of_kafkas = [self.servers] if self.nodes else []
        self.servers = ",".join([*of_kafkas, *(self.own[each].kafka_address for each in ours)])
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._quorum = quorum

    @property
    def ids(self) -> list[NodeId]:
        return [*BROKERS]

    async def start(self) -> None:
        await self.own.start()
        await super().start()

    async def balanced(self) -> None:
        """Waits until every broker is in every ISR, and leads what prefers it; has leaders elected for that."""

        async def astray() -> int:
            await self.whole(TOPICS)
            found = (await asyncio.to_thread(self.admin.list_topics, timeout=ASK_S)).topics
            if not set(TOPICS) <= found.keys():
                return len(TOPICS)  # who is asked now has not heard of all of them yet
            parts = [each for name in TOPICS for each in found[name].partitions.values()]
            wrong = sum(each.leader != each.replicas[0] for each in parts)
            if wrong:
                asked = self.admin.elect_leaders(ElectionType.PREFERRED, None)
                await asyncio.to_thread(asked.result, ASK_S)
            return wrong

        async def balanced() -> bool:
            try:
                return not await astray()
            except confluent_kafka.KafkaException:
                return False

        await eventually(balanced, within_s=WITHIN_S)

    async def strike(self, broker_id: NodeId, how: signal.Signals) -> None:
        if broker_id in self.nodes:
            await strike_kafka(self.nodes[broker_id], how)
        elif how is PAUSE:
            pid = self._quorum.running.pid(self.own[broker_id])
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE_S)
            os.kill(pid, signal.SIGCONT)
        else:
            await self.own.kill(broker_id, how)
            await asyncio.sleep(DOWN_S)
            await self.own.start(broker_id)

    def logs(self, topic: str, index: int) -> dict[NodeId, bytes]:
        """The bytes of the replicas of a partition."""
        plan = self._quorum.plan
        disks = {each: plan.directory / f"broker-{each}" / "data" for each in self.nodes}
        disks |= {each: self.own.disks(each)[0] for each in self.own.ids}
        return {each: _log(disk / f"{topic}-{index}") for each, disk in disks.items()}


def _log(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


class JudgedWriter(Writer):
    """A writer whose replicas are compared, too."""

    def __init__(self, brokers: BrokersWithOurs, topic: str) -> None:
        super().__init__(brokers, topic)
        self._with_ours = brokers

    async def judge(self) -> None:
        await super().judge()
        for index in range(PARTITIONS):

            async def logs(index: int = index) -> dict[NodeId, bytes]:
                return self._with_ours.logs(self.topic, index)

            await eventually(logs, lambda seen: len(set(seen.values())) == 1)


async def calm(writers: Sequence[Writer]) -> float:
    """Waits until no record has waited for half a second; how long (s) one has waited since this was last asked."""
    seen: list[float] = []

    async def longest_s() -> float:
        await asyncio.sleep(CALM_S)
        seen.append(max(writer.longest_wait_s() for writer in writers))
        return seen[-1]

    await eventually(longest_s, lambda wait_s: wait_s < CALM_S, within_s=WITHIN_S)
    return max(seen)


async def run(directory: Path, *, ours: Sequence[NodeId], faults: Faults) -> str:
    """One side under its faults; what was found, in lines. Raises AssertionError for what must not be."""
    settings = {"controller.quorum.fetch.timeout.ms": FETCH_TIMEOUT_MS, "broker.session.timeout.ms": SESSION_MS}
    waits: dict[tuple[str, str], list[float]] = defaultdict(list)
    async with AsyncExitStack() as life:
        quorum = await life.enter_async_context(ours_first(directory, ours=VOTERS, kafkas=0, settings=settings))
        brokers = BrokersWithOurs(quorum, ours)
        writers = [JudgedWriter(brokers, topic) for topic in TOPICS]
        await life.enter_async_context(at_work(brokers, *writers))
        for number, fault in enumerate(Fault.drawn(faults), 1):
            await brokers.balanced()
            waits[ELECTIONS].append(await calm(writers))
            broker_id, began_s = BROKERS[fault.number % len(BROKERS)], time.monotonic()
            await brokers.strike(broker_id, fault.how)
            await brokers.whole(TOPICS)
            whole_s = time.monotonic() - began_s
            whose = "ours" if broker_id in ours else "Kafka's"
            longest_s = await calm(writers)
            waits[fault.how.name, whose].append(longest_s)
            said = f"  {number}: {broker_id} {fault.how.name}: wait {longest_s:.2f} s, after the election "
            print(f"{said}{waits[ELECTIONS][-1]:.2f} s, whole after {whole_s:.2f} s", flush=True)
    acknowledged = sum(len(writer.acknowledged) for writer in writers)
    with_whom = f"{len(ours)} brokers of ours beside {len(BROKERS) - len(ours)} of Kafka's"
    lines = [f"{with_whom}, seed {faults.seed}: {faults.count} faults, {acknowledged} records acknowledged"]
    lines.append("  none lost, none doubled, none refused, the replicas' logs the same bytes")
    elections = waits.pop(ELECTIONS)
    every = [each for seen in waits.values() for each in seen]
    lines.append(f"  wait, median (longest): {median(every):.2f} s ({max(every):.2f} s)")
    for (how, whose), seen in sorted(waits.items()):
        lines.append(f"  {how}, {whose}: {len(seen)}, {median(seen):.2f} s ({max(seen):.2f} s)")
    lines.append(f"  preferred elections, after each: {median(elections):.2f} s ({max(elections):.2f} s)")
    return "\n".join(lines)


def main() -> None:
    """Both sides, one after the other, with the same faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side", choices=("ours", "kafka"), help="one side only")
    parser.add_argument("--how", choices=[each.name for each in HOW], help="only so")
    arguments = parser.parse_args()
    how = HOW if arguments.how is None else (signal.Signals[arguments.how],)
    faults = Faults(arguments.faults, arguments.seed, where=(BROKER,), how=how)
    for side, ours in (("ours", OURS), ("kafka", ())):
        if arguments.side in (None, side):
            with kept_if_wrong() as directory:
                print(run_loop(run(directory, ours=ours, faults=faults)), flush=True)


if __name__ == "__main__":
    main()
