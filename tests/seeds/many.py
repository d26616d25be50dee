"""Many seeds in several processes, and what is to be said of all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.seeds.outcome import VIOLATED, VOID, Outcome, of

Run = Callable[[int], Outcome]
SHOWN_MAX = 3
SCRIPT = """
import json, sys
from importlib import import_module

module, name, calls = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
for call in calls:
    print(getattr(import_module(module), name)(*call).digest)
"""
BUG = re.compile(r"([A-Z]+[0-9]+f?): ")


def run_many(run: Run, seeds: Sequence[int], *, jobs: int, chunk: int) -> Iterator[Outcome]:
    """All of `seeds`, in order, by so many processes; each takes `chunk` at a time. `run` can be pickled.

    The processes are new ones: a fork of this one would take over the locks of gRPC's threads, and might end by them.
    """
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, seeds, chunksize=chunk)


def digests(run: Callable[..., Outcome], *calls: Sequence[object], hash_seed: str) -> list[str]:
    """What `run` comes to with each of these arguments, in a new process with this PYTHONHASHSEED."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, run.__module__, run.__name__, json.dumps(calls)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


def summed(outcomes: Sequence[Outcome], what: str) -> Counter[str]:
    """The sum of `fired` or `counts` over seeds."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(getattr(outcome, what))
    return total


def check_invariants(outcomes: Sequence[Outcome]) -> None:
    """No seed has broken one."""
    broken = [f"{outcome}\n{outcome.story}" for outcome in of(outcomes, VIOLATED)]

    assert not broken, "\n\n".join(broken[:SHOWN_MAX])


def check_void(outcomes: Sequence[Outcome], *, share_max: float) -> None:
    """Few seeds have shown nothing."""
    void = of(outcomes, VOID)

    assert len(void) <= share_max * len(outcomes), "\n".join(map(str, void[:20]))


def kept_seeds(file: Path) -> list[tuple[int, str]]:
    """(seed, profile) of the failures that were found once: a line each, and what it was behind them."""
    return [(seed, profile) for seed, profile, _ in _kept(file)]


def kept_bugs(file: Path) -> list[tuple[int, str, str]]:
    """(seed, profile, planted bug) of those lines that begin with the number of a planted bug: `E10: …`."""
    found = [(seed, profile, BUG.match(what)) for seed, profile, what in _kept(file)]
    return [(seed, profile, bug[1]) for seed, profile, bug in found if bug is not None]


def _kept(file: Path) -> list[tuple[int, str, str]]:
    lines = [line.split(maxsplit=2) for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return [(int(seed), profile, what) for seed, profile, what in lines]
