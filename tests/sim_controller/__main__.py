"""The simulated cluster by hand: `soak` runs seeds, `replay` tells one seed's story, `mutants` plants bugs."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.sim.runner import PASSED, VIOLATED, VOID, Outcome, summed
from tests.sim_controller.judge import MAX_SEEDS, table
from tests.sim_controller.plan import PROFILES
from tests.sim_controller.runner import run, run_many
from tests.sim_controller.world import ControllerWorld

PROGRESS_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim_controller", description=__doc__)
    commands = parser.add_subparsers(required=True)
    soak = commands.add_parser("soak", help="run many seeds; the exit code is 1 if an invariant was broken")
    soak.add_argument("--seeds", type=int, default=200)
    soak.add_argument("--base", type=int, default=0)
    soak.add_argument("--jobs", type=int, default=2)
    soak.set_defaults(command=_soak)
    replay = commands.add_parser("replay", help="tell the story of one seed")
    replay.add_argument("seed", type=int)
    replay.add_argument("--profile", choices=PROFILES)
    replay.add_argument("--last", type=int, help="so many events only")
    replay.set_defaults(command=_replay)
    mutants = commands.add_parser("mutants", help="how many seeds each planted bug survives")
    mutants.add_argument("names", nargs="*", help="M23, M24, …; all if none is named")
    mutants.add_argument("--bases", type=int, default=5, help="base seeds; the median of them is told")
    mutants.add_argument("--limit", type=int, default=MAX_SEEDS, help="seeds after which a bug has survived")
    mutants.set_defaults(command=_mutants)
    arguments = parser.parse_args()
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
    hours = sum(outcome.simulated_ms for outcome in outcomes) / 3_600_000
    events = sum(outcome.event_count for outcome in outcomes)
    print(f"seeds {len(outcomes)}, events {events:,}, simulated {hours:.1f} h, {seconds:.0f} s")
    print(f"passed {verdicts[PASSED]}, violated {verdicts[VIOLATED]}, void {verdicts[VOID]}")
    print("\n| what | count |\n|---|--:|")
    for name, count in summed(outcomes, "counts").items():
        print(f"| {name} | {count:,} |")
    fired, seeds = summed(outcomes, "fired"), Counter(row for outcome in outcomes for row in outcome.fired)
    print("\n| fault | fired | in seeds |\n|---|--:|--:|")
    for row in sorted(fired):
        print(f"| {row} | {fired[row]:,} | {seeds[row]:,} |")
    reasons = Counter((outcome.profile, outcome.message) for outcome in outcomes if outcome.verdict == VOID)
    for (profile, message), count in reasons.most_common(8):
        print(f"void: {count} {profile}: {message}")


def _replay(arguments: argparse.Namespace) -> int:
    world = ControllerWorld(arguments.seed, profile=arguments.profile, keeps_all=True)
    print(world.cluster_plan, world.plan, sep="\n")
    try:
        world.run()
    except Exception as broken:
        print(world.trace.story(arguments.last))
        print(f"{type(broken).__name__}: {broken}")
        return 1
    print(world.trace.story(arguments.last))
    print(run(arguments.seed, profile=arguments.profile))
    return 0


def _mutants(arguments: argparse.Namespace) -> int:
    survived = False
    print("| bug | what | seeds until killed (each base) | median | by |\n|---|---|---|--:|---|")
    for line in table(arguments.names, bases=arguments.bases, limit=arguments.limit):
        survived |= line.is_survivor
        print(line, flush=True)
    return int(survived)


if __name__ == "__main__":
    sys.exit(main())
