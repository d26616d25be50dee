"""The simulator of real drivers by hand: `soak` runs seeds and sums them up, `replay` tells one seed's story."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from pathlib import Path

from tests.sim.runner import PASSED, VIOLATED, VOID, Outcome, summed
from tests.sim_driver.mutants import MUTANTS, kill
from tests.sim_driver.runner import home, judged, run_many
from tests.sim_driver.world import World

PROGRESS_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim_driver", description=__doc__)
    commands = parser.add_subparsers(required=True)
    soak = commands.add_parser("soak", help="run many seeds; the exit code is 1 if an invariant was broken")
    soak.add_argument("--seeds", type=int, default=200)
    soak.add_argument("--base", type=int, default=0)
    soak.add_argument("--jobs", type=int, default=2)
    soak.set_defaults(command=_soak)
    replay = commands.add_parser("replay", help="tell the story of one seed")
    replay.add_argument("seed", type=int)
    replay.add_argument("--last", type=int, help="so many events only")
    replay.set_defaults(command=_replay)
    mutants = commands.add_parser("mutants", help="how many seeds each planted bug survives")
    mutants.add_argument("names", nargs="*", help="D1, D2, …; all if none is named")
    mutants.add_argument("--bases", type=int, default=5)
    mutants.add_argument("--limit", type=int, default=60, help="seeds after which a bug has survived")
    mutants.set_defaults(command=_mutants)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # the nodes tell of each fault
    code: int = arguments.command(arguments)
    return code


def _soak(arguments: argparse.Namespace) -> int:
    seeds = range(arguments.base, arguments.base + arguments.seeds)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for outcome in run_many(seeds, jobs=arguments.jobs):
        outcomes.append(outcome)
        if outcome.verdict == VIOLATED:
            print(f"{outcome}\n{outcome.story}\n", flush=True)
        if len(outcomes) % PROGRESS_EVERY == 0:
            print(f"{len(outcomes)} of {len(seeds)} seeds, {time.monotonic() - began:.0f} s", flush=True)
    _report(outcomes, time.monotonic() - began)
    return int(any(outcome.verdict == VIOLATED for outcome in outcomes))


def _report(outcomes: list[Outcome], seconds: float) -> None:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    events = sum(outcome.event_count for outcome in outcomes)
    hours = sum(outcome.simulated_ms for outcome in outcomes) / 3_600_000
    print(f"seeds {len(outcomes)}, events {events:,}, simulated {hours:.2f} h, {seconds:.0f} s")
    print(f"passed {verdicts[PASSED]}, violated {verdicts[VIOLATED]}, void {verdicts[VOID]}")
    print(", ".join(f"{name} {count:,}" for name, count in summed(outcomes, "counts").items()))
    seeds = Counter(row for outcome in outcomes for row in outcome.fired)
    print("\n| row | fired | in seeds |\n|---|--:|--:|")
    for row, count in sorted(summed(outcomes, "fired").items()):
        print(f"| {row} | {count:,} | {seeds[row]:,} |")
    for outcome in outcomes:
        if outcome.verdict == VOID:
            print(outcome)


def _replay(arguments: argparse.Namespace) -> int:
    with home() as directory:
        world = World(arguments.seed, Path(directory), keeps_all=True)
        print(world.plan)
        outcome = judged(world)
        print(world.trace.story(arguments.last))
    print(outcome, outcome.digest, outcome.counts)
    return int(outcome.verdict == VIOLATED)


def _mutants(arguments: argparse.Namespace) -> int:
    survived = False
    print("| bug | what | seeds until killed (each base) | by |\n|---|---|---|---|")
    for mutant in MUTANTS:
        if arguments.names and mutant.number not in arguments.names:
            continue
        kills = [kill(mutant, base=100_000 * base, limit=arguments.limit) for base in range(arguments.bases)]
        survived |= None in kills
        counts = " ".join("–" if found is None else str(found[0]) for found in kills)
        killers = ", ".join(sorted({found[1].number for found in kills if found is not None}))
        print(f"| {mutant.number} | {mutant.what} | {counts} | {killers} |", flush=True)
    return int(survived)


if __name__ == "__main__":
    sys.exit(main())
