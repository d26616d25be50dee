"""Worlds in which much of one thing happens, and little else that could hide it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from quorate.nouns import NodeId
from quorate.runtime.settings.setting_types import ConfiguredVoter, Endpoint
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
NEVER_MS: Final = 1 << 30
NOBODY_THERE: Final = Endpoint("nowhere", 1)


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


class WipingWorld(World):
    """Five nodes that ask for a vote by themselves, and lose their disks, one at a time.

    Half of those that lost one have bootstrap servers that are dead for good: they hear of the leader only as long as
    it looks for them under their earlier directory id.
    """

    def drawn(self) -> Plan:
        plan = super().drawn()
        rest = {"kill_every_ms": 4_000, "leave_every_ms": 0, "flush_fails_permille": 0, "read_fails_of_10_000": 0}
        rest |= {"fetch_bytes": 8 * KIB, "write_every_ms": 100, "admin_every_ms": NEVER_MS, "wipe_every_ms": 100}
        plan = replace(plan, voters=IN_LOG, joins=True, moves=False, **QUIET)
        return replace(plan, **rest)  # type: ignore[arg-type]  # all of them are ints

    def joins(self, node_id: NodeId) -> bool:
        return True

    def configured(self, node_id: NodeId) -> tuple[tuple[ConfiguredVoter, ...], tuple[Endpoint, ...]]:
        voters, bootstrap = super().configured(node_id)
        node = self.nodes[node_id]
        is_cut_off = node.wiped_at is not None and node.key.directory_id[0] % 2 == 0
        return voters, (NOBODY_THERE,) if is_cut_off else bootstrap

    def _is_well(self) -> bool:
        """And everybody votes, under the directory id that it has now."""
        voters = self.checker.voter_sets[-1][1]
        return super()._is_well() and all(voters.has(node.key) for node in self.nodes.values())


class LyingWorld(World):
    """Followers now and then fetch bytes that are no record of Kafka's, with a right checksum."""

    def __init__(self, seed: int, directory: Path, *, keeps_all: bool = False) -> None:
        super().__init__(seed, directory, keeps_all=keeps_all)
        self.network.garbler = Liar(self.stream("lies"), permille=LIES_PERMILLE)
