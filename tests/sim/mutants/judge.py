"""Plants each bug in the cores, and counts the seeds until an invariant breaks."""

from __future__ import annotations

from dataclasses import replace

from quorate.raft import LogView, Raft
from tests.seeds import planting
from tests.seeds.planting import Killed, Mutant, Patch
from tests.sim.invariants import checker
from tests.sim.mutants import commits, disks, elections, members, presence
from tests.sim.runner import run

MUTANTS = sorted(
    (*elections.MUTANTS, *commits.MUTANTS, *members.MUTANTS, *disks.MUTANTS, *presence.MUTANTS),
    key=lambda mutant: (mutant.number[0] == "E", int(mutant.number[1:].rstrip("f")), mutant.number),
)

DRAWN = [mutant for mutant in MUTANTS if not mutant.is_rare]
"""Those that drawn seeds are to find."""

MAX_SEEDS = 300
"""After so many seeds a bug has survived."""


def kill(mutant: Mutant, *, base: int, limit: int, profile: str | None = None) -> Killed | None:
    """Seeds from `base` on until one is violated; None if none of `limit` is. Of every profile as they are drawn."""
    with Patch.context() as patch:
        for opinion in ("check_log", "check_role", "check_counts"):
            patch.setattr(checker, opinion, _no_opinion)
        return planting.kill(run, replace(mutant, profile=profile), base=base, limit=limit)


def _no_opinion(_: Raft | LogView) -> None:
    """The core's own invariants do not count here: a bug must be seen from outside."""
