"""Faults under load, on our control plane and on Kafka's controllers: `python -m tests.interop.broker_faults`.

Three brokers of Kafka with an idempotent and a transactional producer, acks=all. The same faults, drawn from a seed,
strike the leader's node, another node, or a broker: SIGKILL, SIGTERM, SIGSTOP for a while. On our side a fault of a
node strikes one of its processes: quorum, controller, gateway, or the heartbeat service. A broker that is struck leads
a partition of the idempotent producer, on both sides, and nothing is struck before all brokers are in all ISRs: how
long a producer waits depends on both. Every acknowledged record must be there once, and no broker may be fenced that
was left alone. Printed is how long records wait for their acknowledgement, on both sides: of the longest wait after
each fault the median and the longest.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from deploy.kafka.node import Node
from deploy.local.plan import Process
from quorate.nouns import NodeId
from quorate.records import BrokerRegistrationChangeRecord
from tests.e2e.cluster import stored_records
from tests.interop.busy_brokers import Brokers, TransactionalWriter, Writer, at_work
from tests.interop.mixed_plan import Settings
from tests.interop.mixed_quorum import MixedQuorum, kafkas_alone, ours_first
from tests.run_loop import run_loop

BROKERS: Final = (101, 102, 103)
VOTERS: Final = 3
SETTINGS: Final[Settings] = {"controller.quorum.fetch.timeout.ms": 2_000, "broker.session.timeout.ms": 9_000}
"""Kafka's own defaults."""
OF_BROKERS: Final = {
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
LEADER, OTHER, BROKER = WHERE = ("leader", "other node", "broker")
KILL, STOP, PAUSE = HOW = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
TOPICS: Final = ("idempotent", "transactional", "__transaction_state")
CALM_S: Final = 2.0
"""Before a fault, and after it, once all brokers are in all ISRs."""
PAUSE_S: Final = 3.0
DOWN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Where one strikes, how, and a number that chooses among the processes there."""

    where: str
    how: signal.Signals
    number: int

    @classmethod
    def drawn(cls, faults: Faults) -> Iterator[Fault]:
        """So many of these; a third strikes brokers, unless said otherwise."""
        random = Random(faults.seed)
        for _ in range(faults.count):
            yield cls(random.choice(faults.where), random.choice(faults.how), random.randrange(1 << 16))

    @property
    def kind(self) -> str:
        """The name of its waits: to a producer the death of a broker is not its pause."""
        return f"{self.where} {self.how.name}" if self.where == BROKER else self.where


@dataclass(frozen=True, slots=True)
class Faults:
    """How many, the seed they are drawn from, and among which."""

    count: int
    seed: int
    where: Sequence[str] = WHERE
    how: Sequence[signal.Signals] = HOW


class OnOurs:
    """What the faults strike in a control plane of ours."""

    def __init__(self, quorum: MixedQuorum) -> None:
        self._quorum = quorum

    async def strike(self, fault: Fault) -> str:
        """One process of a node; returns which service."""
        leader_id = (await self._quorum.led_by(self._quorum.ours)).leader_id
        others = [node_id for node_id in self._quorum.ours if node_id != leader_id]
        process = self._process(leader_id if fault.where == LEADER else others[fault.number % len(others)], fault)
        if fault.how is PAUSE:
            pid = self._quorum.running.pid(process)
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE_S)
            os.kill(pid, signal.SIGCONT)
        else:
            await self._quorum.kill(process, fault.how)
            await asyncio.sleep(DOWN_S)
            await self._quorum.restart(process)
        return process.service

    def _process(self, node_id: NodeId, fault: Fault) -> Process:
        plan = self._quorum.plan
        here = [plan.quorum[node_id - 1], plan.controllers[node_id - 1], plan.gateways[node_id - 1], plan.heartbeat]
        return here[fault.number // VOTERS % len(here)]


class OnKafkas:
    """What the faults strike among Kafka's controllers, each of which is one process."""

    def __init__(self, quorum: MixedQuorum) -> None:
        self._quorum = quorum

    async def strike(self, fault: Fault) -> str:
        leader_id = (await self._quorum.described_by_one_of([*self._quorum.kafkas])).leader_id
        others = [node_id for node_id in self._quorum.kafkas if node_id != leader_id]
        node_id = leader_id if fault.where == LEADER else others[fault.number % len(others)]
        await strike_kafka(self._quorum.kafkas[node_id], fault.how)
        return "controller"


async def strike_kafka(node: Node, how: signal.Signals) -> None:
    """A process of Kafka's is killed or stopped, and started again; or paused."""
    if how is PAUSE:
        node.send(signal.SIGSTOP)
        await asyncio.sleep(PAUSE_S)
        node.send(signal.SIGCONT)
        return
    await asyncio.to_thread(node.kill if how is KILL else node.stop)
    await asyncio.sleep(DOWN_S)
    await asyncio.to_thread(node.start().wait_ready)


async def run(directory: Path, *, on_ours: bool, faults: Faults) -> str:
    """One side under its faults; what was found, in lines. Raises AssertionError for what must not be."""
    async with AsyncExitStack() as life:
        kafkas = 0 if on_ours else VOTERS
        start = ours_first if on_ours else kafkas_alone
        quorum = await life.enter_async_context(start(directory, ours=VOTERS, kafkas=kafkas, settings=SETTINGS))
        controllers = quorum.ours if on_ours else [*quorum.kafkas]
        brokers = Brokers(quorum, BROKERS, controllers, OF_BROKERS)
        writers = [Writer(brokers, TOPICS[0]), TransactionalWriter(brokers, TOPICS[1])]
        await life.enter_async_context(at_work(brokers, *writers))
        struck: Counter[str] = Counter()
        hit: Counter[NodeId] = Counter()
        waits: dict[tuple[str, str], list[float]] = defaultdict(list)
        side = OnOurs(quorum) if on_ours else OnKafkas(quorum)
        for number, fault in enumerate(Fault.drawn(faults), 1):
            leaders = await brokers.whole(TOPICS)
            await asyncio.sleep(CALM_S)
            for writer in writers:
                writer.longest_wait_s()
            if fault.where == BROKER:
                leading = sorted({leaders[each] for each in leaders if each[0] == writers[0].topic})
                broker_id = leading[fault.number % len(leading)]
                hit[broker_id] += 1
                await strike_kafka(brokers.nodes[broker_id], fault.how)
                what = "broker"
            else:
                what = await side.strike(fault)
            await brokers.whole(TOPICS)
            await asyncio.sleep(CALM_S)
            struck[f"{what} {fault.how.name}"] += 1
            for writer in writers:
                waits[writer.topic, fault.kind].append(writer.longest_wait_s())
            if number % 10 == 0:
                print(f"  {number} faults, {[len(writer.acknowledged) for writer in writers]} records", flush=True)
        for writer in writers:
            writer.finish()
    fenced = _fenced(quorum.data(controllers[0]))
    not_hit = sum(max(0, fenced[broker_id] - hit[broker_id]) for broker_id in BROKERS)
    assert not (on_ours and not_hit), f"fenced more often than hit: {fenced}, {hit}"
    name = "Quorate" if on_ours else "Kafka's controllers"
    lines = [
        f"{name}: {faults.count} faults ({_listed(struck)}); none lost, none doubled, "
        f"brokers fenced {not_hit} times more often than hit"
    ]
    for writer in writers:
        told = ", ".join(
            f"{kind} {median(seen):.2f} s ({max(seen):.2f} s)"
            for (topic, kind), seen in sorted(waits.items())
            if topic == writer.topic
        )
        lines.append(f"  {writer.topic}, {len(writer.acknowledged)} acknowledged; wait, median (longest): {told}")
    return "\n".join(lines)


def _fenced(log_dir: Path) -> Counter[NodeId]:
    """How often each broker was fenced, or asked to be as it shut down."""
    changes = [each for each in stored_records(log_dir) if isinstance(each, BrokerRegistrationChangeRecord)]
    return Counter(each.broker_id for each in changes if each.fenced > 0)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))


@contextmanager
def kept_if_wrong() -> Iterator[Path]:
    """A directory that is removed at the end, unless something was raised: what is on the disks tells the most."""
    directory = Path(tempfile.mkdtemp(prefix="quorate-faults-"))
    try:
        yield directory
    except BaseException:
        print(f"what there was is in {directory}", flush=True)
        raise
    shutil.rmtree(directory)


def main() -> None:
    """Both sides, one after the other, with the same faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side", choices=("ours", "kafka"), help="one side only")
    parser.add_argument("--where", choices=WHERE, help="only there")
    parser.add_argument("--how", choices=[each.name for each in HOW], help="only so")
    arguments = parser.parse_args()
    faults = Faults(
        arguments.faults,
        arguments.seed,
        WHERE if arguments.where is None else (arguments.where,),
        HOW if arguments.how is None else (signal.Signals[arguments.how],),
    )
    for on_ours in (True, False):
        if arguments.side in (None, "ours" if on_ours else "kafka"):
            with kept_if_wrong() as directory:
                print(run_loop(run(directory, on_ours=on_ours, faults=faults)), flush=True)


if __name__ == "__main__":
    main()
