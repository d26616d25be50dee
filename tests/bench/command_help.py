"""How long `quorate --help` takes, and that of some commands: processor time of a process, and modules."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.bench.measure import Table

ROUNDS: Final = int(os.environ.get("HELP_ROUNDS", "9"))
COUNTED: Final = "import sys; from quorate.cli import main; main(sys.argv[1:]); print(len(sys.modules))"
HELPS: Final[Sequence[Sequence[str]]] = (
    ("--help",),
    ("topics", "create", "--help"),
    ("sql", "--help"),
    ("call", "--help"),
)


class Taken(NamedTuple):
    """One process: processor time and time on the wall in ms, and what it printed."""

    cpu_ms: float
    wall_ms: float
    printed: str


def run() -> list[Table]:
    """Each in turns, with an empty program beside them."""
    programs = {"(an empty program)": ("pass",), **{" ".join(words): (COUNTED, *words) for words in HELPS}}
    taken: dict[str, list[Taken]] = {what: [] for what in programs}
    for _ in range(ROUNDS):
        for what, words in programs.items():
            taken[what].append(_take(words))
    columns = ("help of", "CPU ms, median", "CPU ms, least", "wall ms, median", "modules")
    data = [_figures(what, each) for what, each in taken.items()]
    rows = [[str(value) for value in each.values()] for each in data]
    title = f"{ROUNDS} processes each; load {os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors"
    return [Table(title=title, columns=columns, rows=rows, data=data)]


def _take(words: Sequence[str]) -> Taken:
    before, begun = os.times(), time.monotonic()
    ran = subprocess.run([sys.executable, "-c", *words], check=True, capture_output=True, text=True)
    wall_s, after = time.monotonic() - begun, os.times()
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(spent_s * 1000, wall_s * 1000, ran.stdout)


def _figures(what: str, taken: Sequence[Taken]) -> dict[str, object]:
    spent = [each.cpu_ms for each in taken]
    return {
        "what": what,
        "cpu_ms": round(statistics.median(spent)),
        "cpu_ms_least": round(min(spent)),
        "wall_ms": round(statistics.median(each.wall_ms for each in taken)),
        "modules": taken[-1].printed.splitlines()[-1] if taken[-1].printed else "",
    }
