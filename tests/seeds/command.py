"""A simulator by hand: `soak` runs seeds and sums them up, `replay` tells one seed's story, `mutants` plants bugs."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.seeds.many import run_many, summed
from tests.seeds.outcome import PASSED, VIOLATED, VOID, Outcome
from tests.seeds.planting import HEAD, Killed, Mutant, table


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """What can be asked of one."""

    name: str
    run: Callable[..., Outcome]
    """A seed, and perhaps the profile that it is to have."""
    replay: Callable[[int, str | None, int | None], tuple[str, Outcome]]
    """A seed, of this profile, and so many events at most: its story, and what became of it."""
    profiles: Sequence[str]
    rows: Sequence[str]
    """The faults that are listed though they have not fired."""
    mutants: Iterable[Mutant]
    kill: Callable[..., Killed | None]
    seeds: int
    """As many as a soak has if nothing is said."""
    chunk: int
    """Seeds that one process takes at a time."""
    limit: int
    """Seeds after which a bug has survived."""


def main(simulator: Simulator) -> int:
    """The exit code is 1 if an invariant was broken, or a bug survived."""
    arguments = _parser(simulator).parse_args()
    code: int = arguments.command(simulator, arguments)
    return code


def _parser(simulator: Simulator) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {simulator.name}", description=__doc__)
    commands = parser.add_subparsers(required=True)
    soak = commands.add_parser("soak", help="run many seeds; the exit code is 1 if an invariant was broken")
    soak.add_argument("--seeds", type=int, default=simulator.seeds)
    soak.add_argument("--base", type=int, default=0)
    soak.add_argument("--jobs", type=int, default=2)
    soak.add_argument(
        "--profile", choices=simulator.profiles, help="all of this one; as they are drawn if none is named"
    )
    soak.set_defaults(command=_soak)
    replay = commands.add_parser("replay", help="tell the story of one seed")
    replay.add_argument("seed", type=int)
    replay.add_argument("--profile", choices=simulator.profiles)
    replay.add_argument("--last", type=int, help="so many events only")
    replay.set_defaults(command=_replay)
    mutants = commands.add_parser("mutants", help="how many seeds each planted bug survives")
    mutants.add_argument("names", nargs="*", help="M1, M2, …; all if none is named")
    mutants.add_argument("--bases", type=int, default=5, help="base seeds; the median of them is told")
    mutants.add_argument("--limit", type=int, default=simulator.limit, help="seeds after which a bug has survived")
    mutants.set_defaults(command=_mutants)
    return parser


def _soak(simulator: Simulator, arguments: argparse.Namespace) -> int:
    seeds = range(arguments.base, arguments.base + arguments.seeds)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    run = partial(simulator.run, profile=arguments.profile) if arguments.profile else simulator.run
    for outcome in run_many(run, seeds, jobs=arguments.jobs, chunk=simulator.chunk):
        outcomes.append(outcome)
        if outcome.verdict == VIOLATED:
            print(f"{outcome}\n{outcome.story}\n", flush=True)
        if len(outcomes) % max(1, simulator.seeds // 2) == 0:
            print(f"{len(outcomes)} of {len(seeds)} seeds, {time.monotonic() - began:.0f} s", flush=True)
    _report(simulator, outcomes, time.monotonic() - began)
    return int(any(outcome.verdict == VIOLATED for outcome in outcomes))


def _report(simulator: Simulator, outcomes: list[Outcome], seconds: float) -> None:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    events = sum(outcome.event_count for outcome in outcomes)
    hours = sum(outcome.simulated_ms for outcome in outcomes) / 3_600_000
    void = verdicts[VOID] / len(outcomes)
    print(f"seeds {len(outcomes)}, events {events:,}, simulated {hours:.2f} h, {seconds:.0f} s")
    print(f"passed {verdicts[PASSED]}, violated {verdicts[VIOLATED]}, void {verdicts[VOID]} ({void:.1%})")
    print(", ".join(f"{name} {count:,}" for name, count in summed(outcomes, "counts").items()))
    fired, seeds = summed(outcomes, "fired"), Counter(row for outcome in outcomes for row in outcome.fired)
    print("\n| row | fired | in seeds |\n|---|--:|--:|")
    for row in (*simulator.rows, *sorted(fired.keys() - set(simulator.rows))):
        print(f"| {row} | {fired[row]:,} | {seeds[row]:,} |")
    reasons = Counter((outcome.profile, outcome.message) for outcome in outcomes if outcome.verdict == VOID)
    for (profile, message), count in reasons.most_common(8):
        print(f"void: {count} {profile}: {message}")


def _replay(simulator: Simulator, arguments: argparse.Namespace) -> int:
    story, outcome = simulator.replay(arguments.seed, arguments.profile, arguments.last)
    print(story)
    print(outcome, outcome.digest)
    return int(outcome.verdict == VIOLATED)


def _mutants(simulator: Simulator, arguments: argparse.Namespace) -> int:
    survived = False
    print(HEAD)
    lines = table(simulator.mutants, simulator.kill, arguments.names, bases=arguments.bases, limit=arguments.limit)
    for line in lines:
        survived |= line.is_survivor
        print(line, flush=True)
    return int(survived)
