"""Rounds of bursts at every door, and a look at all processes after each burst."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from deploy.local.plan import Process
from tests.fuzz.burst import Outcome, burst
from tests.fuzz.inputs import Words
from tests.fuzz.plane import Plane, listener
from tests.fuzz.rpcs import SERVED, Rpc, rpcs_of
from tests.fuzz.wire_burst import wire_burst
from tests.fuzz.wire_inputs import TARGETS

LEAVES_THE_LOG: Final = frozenset({"OK", "CANCELLED", "DEADLINE_EXCEEDED"})
"""A call that ended so may have written something. Any other status says that nothing was."""
WRITES: Final = frozenset({"controller", "heartbeat", "gateway"})
APIS_AT_ONCE: Final = 8
"""How many APIs of a gateway count as one door: a target has up to 31 of them."""


class Door(NamedTuple):
    """One RPC of one process, or a target at the gateways' own wire."""

    process: Process
    rpc: Rpc | str

    @property
    def name(self) -> str:
        return (
            f"{self.process.service}/{self.rpc}" if isinstance(self.rpc, str) else self.process.service + self.rpc.path
        )


class Campaign:
    """What was sent so far, how it ended, and what broke."""

    def __init__(self, plane: Plane, *, seed: int, burst: int, only: str = "", stops: bool = True) -> None:
        self.inputs = 0
        self.statuses: dict[str, Counter[str]] = {}
        self.faults: list[str] = []
        self._plane = plane
        self._seed = seed
        self._burst = burst
        self._stops = stops
        self._doors = [door for door in doors(plane.processes) if only in door.name]

    async def rounds(self) -> AsyncIterator[int]:
        """For ever: after each round its number, or earlier if there are faults."""
        number = 0
        while True:
            for door in self._doors:
                await self._try(door, number)
                if self.faults and self._stops:
                    break
            yield number
            number += 1

    async def _try(self, door: Door, number: int) -> None:
        words = await self._plane.words()
        before = self._plane.records()
        outcome = await self._burst_at(door, number, words)
        self._note(door, outcome)
        faults = outcome.unmeant + await self._plane.faults()
        if door.process.service not in WRITES or LEAVES_THE_LOG.isdisjoint(outcome.statuses):
            after = self._plane.records()
            if before != after[: len(before)] or any(map(_is_anybodys, after[len(before) :])):
                faults.append(f"the log was {len(before)} records and is {len(after)}: {after[len(before) :][:3]}")
        self.faults += [f"{door.name}, round {number}: {fault}" for fault in faults]

    async def _burst_at(self, door: Door, number: int, words: Words) -> Outcome:
        process, seed = self._one_of(door, number), f"{self._seed}/{number}/{door.name}"
        if isinstance(door.rpc, str):
            address, count = listener(process), self._burst * APIS_AT_ONCE
            return await wire_burst(address, door.rpc, words, seed=seed, count=count)
        return await burst(self._plane.cluster.channel(process), door.rpc, words, seed=seed, count=self._burst)

    def _note(self, door: Door, outcome: Outcome) -> None:
        self.inputs += outcome.inputs
        self.statuses.setdefault(door.name, Counter()).update(outcome.statuses)

    def _one_of(self, door: Door, number: int) -> Process:
        """Of copies each in turn: one of them leads."""
        plan = self._plane.cluster.plan
        groups = {"quorum": plan.quorum, "controller": plan.controllers, "gateway": plan.gateways}
        copies = groups.get(door.process.service, (door.process,))
        return copies[number % len(copies)]


def doors(processes: Sequence[Process]) -> list[Door]:
    """Every RPC of one process of each program, and every target at a gateway."""
    one = {process.service: process for process in reversed(processes)}
    at_wire = [Door(one["gateway"], target) for target in TARGETS]
    return [*(Door(one[program], rpc) for program in SERVED for rpc in rpcs_of(program)), *at_wire]


def _is_anybodys(record: object) -> bool:
    """Not one that the control plane writes by itself after an election."""
    return type(record).__name__ not in {"RegisterControllerRecord", "BrokerRegistrationChangeRecord"}
