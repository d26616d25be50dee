"""Plants each bug and counts the seeds until an invariant breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low

from quorate.raft import Raft
from tests.sim.invariants import checker
from tests.sim.mutants import commits, disks, elections, members
from tests.sim.mutants.base import Mutant, Patch
from tests.sim.runner import VIOLATED, Outcome, run

MUTANTS = sorted(
    (*elections.MUTANTS, *commits.MUTANTS, *members.MUTANTS, *disks.MUTANTS),
    key=lambda mutant: (mutant.number[0] == "E", int(mutant.number[1:].rstrip("f")), mutant.number),
)

MAX_SEEDS = 300
"""After so many seeds a bug has survived."""

BASE_STEP = 100_000


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    mutant: Mutant
    counts: tuple[int | None, ...]
    """Seeds until killed, by base; None for a survivor."""
    killers: tuple[str, ...]

    @property
    def is_survivor(self) -> bool:
        return None in self.counts

    def __str__(self) -> str:
        counts = " ".join("–" if count is None else str(count) for count in self.counts)
        known = [MAX_SEEDS if count is None else count for count in self.counts]
        killers = ", ".join(sorted(set(self.killers)))
        return f"| {self.mutant.number} | {self.mutant.what} | {counts} | {median_low(known)} | {killers} |"


def kill(mutant: Mutant, *, base: int, limit: int, profile: str | None = None) -> tuple[int, Outcome] | None:
    """Seeds from `base` on until one is violated, and that; None if none of `limit` is."""
    with Patch.context() as patch:
        mutant.plant(patch)
        patch.setattr(checker, "check", _no_opinion)
        for count in range(1, limit + 1):
            outcome = run(base + count - 1, profile=profile)
            if outcome.verdict == VIOLATED:
                return count, outcome
    return None


def _no_opinion(raft: Raft) -> None:
    """The core's own invariants do not count here: a bug must be seen from outside."""


def table(names: Sequence[str], *, bases: int, limit: int) -> Iterator[Line]:
    """A line for each bug of these names, or for all; over seeds of every profile as they are drawn."""
    for mutant in MUTANTS:
        if names and mutant.number not in names:
            continue
        kills = [kill(mutant, base=base * BASE_STEP, limit=limit) for base in range(bases)]
        counts = tuple(None if found is None else found[0] for found in kills)
        yield Line(mutant, counts, tuple(found[1].number for found in kills if found is not None))
