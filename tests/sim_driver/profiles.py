"""Worlds in which much of one thing happens, and little else that could hide it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.sim_driver.garbling import Liar
from tests.sim_driver.world import IN_LOG, KIB, STATIC, UPGRADED, Plan, World

QUIET: Final[dict[str, Any]] = {
    "damages": False,
    "garble_permille": 0,
    "cut_every_ms": 0,
    "pause_every_ms": 0,
    "full_every_ms": 0,
}

LIES_PERMILLE: Final = 100


class MovingWorld(World):
    """Voters that were configured, are in the log now, and come back elsewhere again and again."""

    def drawn(self) -> Plan:
        plan = super().drawn()
        return replace(plan, voters=UPGRADED, moves=True, joins=False, admin_every_ms=300, **QUIET)


class CleaningWorld(World):
    """Snapshots and cleanings all the time, on disks that stall: what waits for a file may come after its end."""

    def drawn(self) -> Plan:
        plan = super().drawn()
        often = replace(plan.cleaning, retention_bytes=5_000, interval_ms=5, delete_delay_ms=0)
        slow = {"snapshot_permille": 300, "stall_permille": 100, "flush_ms": 15, "write_every_ms": 25}
        return replace(plan, voters=STATIC, cleaning=often, **slow)  # type: ignore[arg-type]


class WalkingWorld(World):
    """Targets that are set, replaced and taken back, and leaders that die on the way."""

    def drawn(self) -> Plan:
        plan = super().drawn()
        calm = {"kill_every_ms": 5_000, "leave_every_ms": 0, "flush_fails_permille": 0, "read_fails_of_10_000": 0}
        calm |= {"fetch_bytes": 8 * KIB, "write_every_ms": 100}
        plan = replace(plan, voters=IN_LOG, moves=False, joins=False, walks=True, admin_every_ms=300, **QUIET)
        return replace(plan, **calm)  # type: ignore[arg-type]  # all of them are ints


class LyingWorld(World):
    """What followers fetch is now and then no record of Kafka's, with a checksum that is right."""

    def __init__(self, seed: int, directory: Path, *, keeps_all: bool = False) -> None:
        super().__init__(seed, directory, keeps_all=keeps_all)
        self.network.garbler = Liar(self.stream("lies"), permille=LIES_PERMILLE)
