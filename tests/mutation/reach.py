"""Which test files run which lines: a change is only shown to tests that come by it."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.mutation.tree import PYTEST, Tree

SOURCES: Final = "services,libs/quorate/runtime"
TIMEOUT_S: Final = 300.0
TRIES: Final = 3
"""A deadline may pass too early on a machine that does other things."""


@dataclass
class Reach:
    """`by_line` has (file, line) → test files; `took_s` how long each test file takes alone."""

    by_line: Mapping[tuple[str, int], set[str]]
    took_s: dict[str, float] = field(default_factory=dict)

    def tests(self, file: str, line: int) -> list[str]:
        """The test files that run a line, the quickest first."""
        return sorted(self.by_line.get((file, line), ()), key=lambda test: self.took_s[test])


def measured(tree: Tree, tests: Sequence[str]) -> Reach:
    """Each test file by itself, under coverage. One that fails on the tree as it is can judge nothing, and is named."""
    reach = Reach(defaultdict(set))
    for test in tests:
        begun = time.monotonic()
        run = ("-m", "coverage", "run", f"--source={SOURCES}", *PYTEST, test)
        for _ in range(TRIES):
            code, output = tree.told(*run, timeout_s=TIMEOUT_S)
            if not code:
                break
        else:
            print(f"left out, since it fails on the tree as it is: {test}\n{output[-500:]}", flush=True)
            continue
        reach.took_s[test] = time.monotonic() - begun
        for file, line in _lines(tree):
            reach.by_line[file, line].add(test)  # type: ignore[index]  # a defaultdict here
    return reach


def _lines(tree: Tree) -> list[tuple[str, int]]:
    tree.python("-m", "coverage", "json", "-q", "-o", "reach.json", timeout_s=TIMEOUT_S)
    found = json.loads((tree.directory / "reach.json").read_text())["files"]
    return [(file, line) for file, of in found.items() for line in of["executed_lines"]]
