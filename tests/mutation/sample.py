"""A seeded sample of all mutations of the glue, and which of them a test sees."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.mutations import Mutation, mutations
from tests.mutation.reach import Reach, measured
from tests.mutation.tree import ROOT, TIMED_OUT, Tree, copied

MUTATED: Final = ("services/*/*.py", "services/controller/handlers/*.py", "libs/quorate/runtime/**/*.py")
NOT_MUTATED: Final = ("services/pipeline/", "/__init__.py", "/__main__.py")
"""Spark's, what is empty, and wiring, which only real processes run (tests/e2e)."""
JUDGES: Final = ("tests/services/*/test_*.py", "tests/runtime/test_*.py")
KILLED, LIVES, UNREACHED = "killed", "lives", "not reached"
PATIENCE: Final = 5
"""A test that takes so many times as long as it should hangs: that is seen, too."""
LEAST_S: Final = 30.0


@dataclass(frozen=True)
class Fate:
    """What became of one mutation; `line` is the source as it was."""

    mutation: Mutation
    verdict: str
    line: str
    by: str = ""

    def __str__(self) -> str:
        at = f"{self.mutation.file}:{self.mutation.line}"
        return f"{self.verdict:11} {at}  {self.mutation.operator.removeprefix('core/')}  {self.line.strip()}  {self.by}"


def fates(count: int, seed: int, *, root: Path = ROOT) -> Iterator[Fate]:
    """Of so many mutations, chosen by `seed`; the tree at `root` is copied first."""
    with copied(root) as tree:
        reach = measured(tree, _matching(tree, JUDGES))
        everything = mutations(tree.directory, _mutated(tree))
        chosen = random.Random(seed).sample(everything, min(count, len(everything)))
        print(f"{len(everything)} mutations, {len(chosen)} of them drawn by seed {seed}", flush=True)
        for mutation in chosen:
            yield _fate(tree, reach, mutation)


def summary(found: Sequence[Fate]) -> str:
    """The shares, by package."""
    lines = ["| package | drawn | killed | lives | not reached | share killed |", "|---|--:|--:|--:|--:|--:|"]
    for package in [*sorted({_package(fate) for fate in found}), "all"]:
        counts = Counter(fate.verdict for fate in found if package in ("all", _package(fate)))
        drawn = counts.total()
        lines.append(
            f"| {package} | {drawn} | {counts[KILLED]} | {counts[LIVES]} | {counts[UNREACHED]} "
            f"| {counts[KILLED] / max(1, drawn):.0%} |"
        )
    return "\n".join(lines)


def _fate(tree: Tree, reach: Reach, mutation: Mutation) -> Fate:
    source = (tree.directory / mutation.file).read_text()
    line = source.splitlines()[mutation.line - 1]
    tests = reach.tests(mutation.file, mutation.line)
    if not tests:
        return Fate(mutation, UNREACHED, line)
    with tree.edited(mutation.file, mutation.applied(source)):
        for test in tests:
            limit_s = max(LEAST_S, PATIENCE * reach.took_s[test])
            # Twice: a test may fail once because the machine is busy.
            if (code := tree.pytest([test], timeout_s=limit_s)) and tree.pytest([test], timeout_s=limit_s):
                return Fate(mutation, KILLED, line, test + (" (hangs)" if code == TIMED_OUT else ""))
    return Fate(mutation, LIVES, line)


def _package(fate: Fate) -> str:
    return fate.mutation.file.rpartition("/")[0]


def _mutated(tree: Tree) -> list[str]:
    return [file for file in _matching(tree, MUTATED) if not any(part in file for part in NOT_MUTATED)]


def _matching(tree: Tree, patterns: Sequence[str]) -> list[str]:
    found = {path for pattern in patterns for path in tree.directory.glob(pattern)}
    return sorted(str(path.relative_to(tree.directory)) for path in found)
