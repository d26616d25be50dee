"""Bugs that are planted, and how many seeds they live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low

import pytest

from tests.seeds.outcome import VIOLATED, Outcome

BASE_STEP = 100_000
HEAD = "| bug | what | seeds until killed (each base) | median | by |\n|---|---|---|--:|---|"
Patch = pytest.MonkeyPatch
Killed = tuple[int, str]
"""So many seeds it took, and the number of what was broken."""


@dataclass(frozen=True)
class Mutant:
    """A bug: its number, one sentence, and how it replaces what is right, for as long as the patch holds."""

    number: str
    what: str
    plant: Callable[[Patch], None]
    profile: str | None = None
    """In whose seeds it is looked for; None where it is met often in any."""
    is_rare: bool = False
    """It is met in so few that drawn seeds would take hours to find it: only its kept seed is run."""
    needs_two: bool = False
    """It shows only where two processes are compared."""
    base: int = 0
    """From this seed on it is soon found: a test that has to find it begins here."""


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    mutant: Mutant
    kills: tuple[Killed | None, ...]
    """By base; None for a survivor."""
    limit: int

    @property
    def is_survivor(self) -> bool:
        """Is its median no kill? From a single base a bug may live on by chance; the table tells where."""
        return 2 * self.kills.count(None) >= len(self.kills)

    def __str__(self) -> str:
        counts = [None if kill is None else kill[0] for kill in self.kills]
        told = " ".join("–" if count is None else str(count) for count in counts)
        median = median_low([self.limit if count is None else count for count in counts])
        killers = ", ".join(sorted({kill[1] for kill in self.kills if kill is not None}))
        return f"| {self.mutant.number} | {self.mutant.what} | {told} | {median} | {killers} |"


def kill(run: Callable[..., Outcome], mutant: Mutant, *, base: int, limit: int) -> Killed | None:
    """Seeds of its profile from `base` on, with this bug, until one is violated; None if none of `limit` is."""
    seeds = partial(run, profile=mutant.profile) if mutant.profile else run
    with Patch.context() as patch:
        mutant.plant(patch)
        for count in range(1, limit + 1):
            outcome = seeds(base + count - 1)
            if outcome.verdict == VIOLATED:
                return count, outcome.number
    return None


def table(
    mutants: Iterable[Mutant], kill: Callable[..., Killed | None], names: Sequence[str], *, bases: int, limit: int
) -> Iterator[Line]:
    """A line for each bug of these names, or for all."""
    for mutant in mutants:
        if not names or mutant.number in names:
            kills = tuple(kill(mutant, base=base * BASE_STEP, limit=limit) for base in range(bases))
            yield Line(mutant, kills, limit)
