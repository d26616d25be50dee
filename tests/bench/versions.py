"""What a CreateTopics costs in this version and in others, and on Kafka's controllers: all alive at once, in turns.

`VERSIONS=DIR,DIR` names the other checkouts, in each of which `make setup` has run; `VERSION_ROUNDS` how often all are
asked. Each version starts nine processes of its own code, without gateways and traces, and three stand-ins of brokers
that send heartbeats; all are asked over gRPC by this version's client.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench import beside_kafka
from tests.bench.beside_kafka import AT_ONCE, IN_FLIGHT, SERIAL, WARM_UP, Create, at_once, by_wire, figures_of
from tests.bench.both_sides import VOTERS, Rounds
from tests.bench.measure import Missing, Table, cpu_seconds, ratio_table, us
from tests.bench.quorum_nodes import QUIET
from tests.interop.mixed_plan import MEASURED, PATIENT
from tests.interop.mixed_quorum import kafkas_alone
from tests.run_loop import run_loop

HERE: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = int(os.environ.get("VERSION_ROUNDS", "4"))
KAFKA: Final = "Kafka"

PROGRAM: Final = """
import asyncio, json, sys
from pathlib import Path
from deploy.local.client import Admin
from deploy.local.plan import make_plan
from deploy.local.processes import Running
try:
    from deploy.local.broker import stand_in
except ImportError:
    from deploy.local.__main__ import stand_in

async def main():
    plan = make_plan(Path(sys.argv[1]))
    running = Running(plan)
    try:
        for node in plan.quorum:
            await running.format(node)
        for process in plan.processes:
            await running.spawn(process)
        await running.ready(plan.processes)
        brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
        for broker in brokers:
            await broker.start()
        leader_id = (await Admin(plan).describe_quorum()).topics[0].partitions[0].leader_id
        active = next(each for each in plan.controllers if each.settings["node.id"] == str(leader_id))
        pids = {each.name: running.pid(each) for each in plan.processes}
        print(json.dumps({"address": active.address, "leader_id": leader_id, "pids": pids}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await running.stop()

asyncio.run(main())
"""
"""Runs with the code of a checkout, until its input ends: what it calls is there in every version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The processes of one checkout, by name."""

    name: str
    leader_id: int
    pids: Mapping[str, int]
    create: Create

    @property
    def cpu_s(self) -> float:
        """What all processes have used so far."""
        return sum(map(cpu_seconds, self.pids.values()))

    def cpu_by_part(self) -> Mapping[str, float]:
        """What they have used so far, by their part."""
        found: defaultdict[str, float] = defaultdict(float)
        for name, pid in self.pids.items():
            found[self._part(name)] += cpu_seconds(pid)
        return found

    def _part(self, name: str) -> str:
        service, _, node_id = name.rpartition("-")
        leads = node_id == str(self.leader_id)
        if service == "quorum":
            return "the leader's node" if leads else "the followers' nodes"
        if service == "controller":
            return "active controller" if leads else "standby controllers"
        return service


def run() -> list[Table]:
    """Needs a JDK 17 and Maven, and the other checkouts; some minutes."""
    os.environ.update(QUIET)
    others = [Path(each).resolve() for each in os.environ.get("VERSIONS", "").split(",") if each]
    if not others:
        raise Missing("VERSIONS names no other checkout of this repository: VERSIONS=DIR,DIR")
    return run_loop(_measured([*others, HERE]))


async def _measured(checkouts: list[Path]) -> list[Table]:
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    try:
        async with AsyncExitStack() as life:
            plan = kafkas_alone(directory / "kafkas", ours=1, kafkas=VOTERS, settings=PATIENT, peers=MEASURED)
            kafkas = await life.enter_async_context(plan)
            versions = [await life.enter_async_context(_version(each, directory)) for each in checkouts]
            return await _measure(await by_wire(KAFKA, kafkas, [*kafkas.kafkas], life), versions)
    finally:
        shutil.rmtree(directory)


@asynccontextmanager
async def _version(checkout: Path, directory: Path) -> AsyncIterator[Version]:
    """Starts the processes of a checkout, and ends them after the block."""
    name = (await _output(checkout, "git", "log", "-1", "--format=%h")).decode().strip()
    state = directory / name
    state.mkdir()
    program = await asyncio.create_subprocess_exec(
        checkout / ".venv/bin/python",
        "-c",
        PROGRAM,
        state,
        cwd=checkout,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        if not (line := await program.stdout.readline()):
            raise Missing(f"{checkout}: its control plane did not start")
        found = json.loads(line)
        async with AsyncExitStack() as channels:
            create = await beside_kafka.create_by_grpc(found["address"], channels)
            yield Version(name=name, leader_id=found["leader_id"], pids=found["pids"], create=create)
    finally:
        program.stdin.close()
        await program.wait()


async def _output(checkout: Path, *command: str) -> bytes:
    asked = await asyncio.create_subprocess_exec(*command, cwd=checkout, stdout=asyncio.subprocess.PIPE)
    return (await asked.communicate())[0]


async def _measure(kafka: beside_kafka.Side, versions: list[Version]) -> list[Table]:
    numbers, rounds = count(), Rounds(ROUNDS)
    parts: dict[int, Rounds] = {1: Rounds(ROUNDS), IN_FLIGHT: Rounds(ROUNDS)}
    for side in (kafka, *versions):
        await at_once(side, numbers, WARM_UP)
    for _ in rounds:
        rounds.add(kafka.name, await figures_of(kafka, numbers))
        for version in versions:
            rounds.add(version.name, await figures_of(version, numbers))
            for in_flight, topics in ((1, SERIAL), (IN_FLIGHT, AT_ONCE)):
                parts[in_flight].add(version.name, await _by_part(version, numbers, in_flight, topics))
    names = [version.name for version in versions]
    return [
        ratio_table(f"Versions: {rounds.told}", "CreateTopics, RF 3", rounds.found, [KAFKA, *names]),
        *(_parts_table(in_flight, each, names) for in_flight, each in parts.items()),
    ]


async def _by_part(version: Version, numbers: count[int], in_flight: int, topics: int) -> Mapping[str, float]:
    """Seconds of CPU of a topic, by part."""
    before = version.cpu_by_part()
    if in_flight == 1:
        for _ in range(topics):
            await beside_kafka.created(version, 0, beside_kafka.wanted(numbers))
    else:
        await at_once(version, numbers, topics)
    return {part: (used - before[part]) / topics for part, used in version.cpu_by_part().items()}


def _parts_table(in_flight: int, rounds: Rounds, names: list[str]) -> Table:
    medians = {
        part: {name: statistics.median(by_version[name]) for name in names} for part, by_version in rounds.found.items()
    }
    medians["all"] = {name: sum(each[name] for each in medians.values()) for name in names}
    rows = [(part, *(us(each[name]) for name in names)) for part, each in medians.items()]
    data = [{"part": part, **each} for part, each in medians.items()]
    return Table(title=f"CPU of a topic, {in_flight} in flight", columns=("process", *names), rows=rows, data=data)
