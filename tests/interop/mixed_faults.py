"""Faults at random in a quorum of our nodes and Kafka controllers: `python -m tests.interop.mixed_faults`.

Nodes are killed, stopped, paused and started again, controllers of ours apart from their nodes, and leadership is
handed over, never more at once than a minority, while topics are made through whichever node leads. At the end all
nodes have the same log below the high watermark, one leader an epoch, and every acknowledged topic once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final

from deploy.local.plan import Process
from kraft.service.quorum_pb2 import TransferLeadershipRequest
from quorate.errors import ApiError
from quorate.nouns import NodeId
from tests.e2e.calls import attempt, call_once, eventually
from tests.e2e.cluster import stored_leaders
from tests.interop.mixed_plan import PATIENT, Settings
from tests.interop.mixed_quorum import MixedQuorum, kafkas_first
from tests.run_loop import run_loop

SETTINGS: Final[Settings] = PATIENT | {"controller.quorum.fetch.timeout.ms": 2_000}
"""Kafka's own timeouts but for the broker's session: nobody sends heartbeats here."""
DOWN_MAX_S: Final = 6.0
CALM_MAX_S: Final = 4.0
PAUSE_MAX_S: Final = 5.0
TELL_EVERY_S: Final = 30.0
WITHIN_S: Final = 300.0
"""Against hanging alone."""

Fault = Callable[[NodeId], Awaitable[None]]


class Writes:
    """Topics that are made one after the other, by whichever node leads."""

    def __init__(self, quorum: MixedQuorum, random: Random) -> None:
        self.acknowledged: list[str] = []
        self.tried = 0
        self._quorum = quorum
        self._random = random
        self._nodes = [*quorum.ours, *quorum.kafkas]

    async def run(self) -> None:
        """Until cancelled. A name is tried again until it is acknowledged, or some node has it already."""
        while True:
            name = f"topic-{self.tried}"
            self.tried += 1
            await self._quorum.create_by_one_of(name, self._random.sample(self._nodes, len(self._nodes)))
            self.acknowledged.append(name)


class Faults:
    """What is done to the nodes; `counts` says how often."""

    def __init__(self, quorum: MixedQuorum, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._quorum = quorum
        self._random = random
        self._at_work: set[NodeId] = set()

    async def run(self, until: float) -> None:
        """One fault after the other until a moment of the loop's clock; each is healed at its end."""
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self._random.uniform(0.1, CALM_MAX_S))
            node_id = self._random.choice([each for each in self._all() if each not in self._at_work])
            self._at_work.add(node_id)
            try:
                fault = self._random.choice(self._faults(node_id))
                self.counts[f"{fault.__name__.strip('_')} {'Kafka' if node_id in self._quorum.kafkas else 'ours'}"] += 1
                await fault(node_id)
            finally:
                self._at_work.discard(node_id)

    def _all(self) -> list[NodeId]:
        return [*self._quorum.ours, *self._quorum.kafkas]

    def _faults(self, node_id: NodeId) -> list[Fault]:
        if node_id in self._quorum.kafkas:
            return [self._killed, self._stopped, self._paused]
        return [self._killed, self._stopped, self._paused, self._controller_killed, self._handed_over]

    def _process(self, node_id: NodeId) -> Process:
        return self._quorum.quorum(node_id)

    async def _down(self) -> None:
        await asyncio.sleep(self._random.uniform(0.1, DOWN_MAX_S))

    async def _killed(self, node_id: NodeId) -> None:
        if node_id in self._quorum.kafkas:
            await asyncio.to_thread(self._quorum.kafkas[node_id].kill)
            await self._down()
            await self._quorum.start_kafka(node_id)
        else:
            await self._quorum.kill(self._process(node_id))
            await self._down()
            await self._quorum.restart(self._process(node_id))

    async def _stopped(self, node_id: NodeId) -> None:
        if node_id in self._quorum.kafkas:
            await self._quorum.stop_kafka(node_id)
            await self._quorum.start_kafka(node_id)
        else:
            await self._quorum.kill(self._process(node_id), signal.SIGTERM)
            await self._quorum.restart(self._process(node_id))

    async def _paused(self, node_id: NodeId) -> None:
        self._send(node_id, signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0.5, PAUSE_MAX_S))
        self._send(node_id, signal.SIGCONT)

    def _send(self, node_id: NodeId, number: signal.Signals) -> None:
        if node_id in self._quorum.kafkas:
            self._quorum.kafkas[node_id].send(number)
        else:
            os.kill(self._quorum.running.pid(self._process(node_id)), number)

    async def _controller_killed(self, node_id: NodeId) -> None:
        process = self._quorum.controller(node_id)
        await self._quorum.kill(process)
        await self._down()
        await self._quorum.restart(process)

    async def _handed_over(self, node_id: NodeId) -> None:
        to = self._random.choice([each for each in self._all() if each != node_id])
        request = TransferLeadershipRequest(voter_id=to, epoch=-1, timeout_ms=3_000)
        await attempt(call_once(self._quorum.quorum_stub(node_id).TransferLeadership, request))


async def run(directory: Path, *, ours: int, kafkas: int, seconds: float, seed: int) -> str:
    """One quorum under faults; what was done and found, in a line. Raises AssertionError for what must not be."""
    random = Random(seed)
    async with kafkas_first(directory, ours=ours, kafkas=kafkas, settings=SETTINGS) as quorum:
        nodes = {*quorum.ours, *quorum.kafkas}
        await _all_vote(quorum, nodes)
        writes, faults = Writes(quorum, random), Faults(quorum, random)
        until = asyncio.get_running_loop().time() + seconds
        writing = asyncio.create_task(writes.run())
        telling = asyncio.create_task(_tell(writes, faults))
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range((len(nodes) - 1) // 2):
                    tasks.create_task(faults.run(until))
        finally:
            writing.cancel()
            telling.cancel()
        await quorum.create_by_one_of("after-the-faults", sorted(nodes))
        committed = await quorum.stop_all()
    logs = {node_id: quorum.log_of(node_id, below=committed) for node_id in nodes}
    first = min(nodes)
    for node_id in nodes:
        assert logs[first] == logs[node_id], f"the logs of {first} and {node_id} differ below {committed}"
    leaders = dict(stored_leaders(quorum.data(first)))
    for node_id in nodes:
        for epoch, leader_id in stored_leaders(quorum.data(node_id)):
            assert leaders.setdefault(epoch, leader_id) == leader_id, (epoch, leaders[epoch], leader_id)
    stored = Counter(quorum.topics_in(first))
    wrong = [name for name in [*writes.acknowledged, "after-the-faults"] if stored[name] != 1]
    assert not wrong, f"acknowledged, and not there once: {wrong[:5]}"
    led = Counter("Kafka" if leader_id in quorum.kafkas else "ours" for leader_id in leaders.values())
    return (
        f"{ours} of ours + {kafkas} of Kafka's, seed {seed}, {seconds:.0f} s: {faults.counts.total()} faults "
        f"({_listed(faults.counts)}), {len(leaders)} epochs ({_listed(led)}), "
        f"{len(writes.acknowledged)} topics acknowledged, each there once; equal logs below {committed}"
    )


async def _all_vote(quorum: MixedQuorum, nodes: set[NodeId]) -> None:
    async def voters() -> set[NodeId]:
        for node_id in nodes:
            try:
                return {each.replica_id for each in (await quorum.described(at=node_id)).current_voters}
            except (ApiError, OSError):
                continue
        return set()

    await eventually(voters, lambda seen: seen == nodes, within_s=WITHIN_S)


async def _tell(writes: Writes, faults: Faults) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        print(f"  {faults.counts.total()} faults, {len(writes.acknowledged)} topics", flush=True)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))


def main() -> None:
    """Runs each quorum for its share of the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quorums", default="1+2,2+1,2+3", help="ours + Kafka's, separated by commas")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, shape.split("+"))) for shape in arguments.quorums.split(",")]
    for ours, kafkas in shapes:
        seconds = 60 * arguments.minutes / len(shapes)
        with tempfile.TemporaryDirectory() as directory:
            print(
                run_loop(run(Path(directory), ours=ours, kafkas=kafkas, seconds=seconds, seed=arguments.seed)),
                flush=True,
            )


if __name__ == "__main__":
    main()
