"""Breaks a copy of the tree and looks whether a test sees it: `planted` bugs, or a seeded `sample` of mutations."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.mutation.planted import verdicts
from tests.mutation.tables import ALL
from tests.mutation.tree import ROOT, copied

COUNT = 100


def main() -> int:
    """The exit code of `planted` is 1 if a bug lives; of `sample` it is 0: what may live is for a person to say."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    commands = parser.add_subparsers(required=True)
    planted = commands.add_parser("planted", help="plant each bug of the table, and run the test that it names")
    planted.add_argument("numbers", nargs="*", help="G1, W1, …; all if none is named")
    planted.set_defaults(command=_planted)
    sample = commands.add_parser("sample", help="draw mutations of the glue; needs cosmic-ray (`make mutation`)")
    sample.add_argument("--count", type=int, default=COUNT, help="so many mutations are drawn")
    sample.add_argument("--seed", type=int, default=1)
    sample.add_argument("--root", type=Path, default=ROOT, help="the tree that is copied, and mutated there")
    sample.set_defaults(command=_sample)
    arguments = parser.parse_args()
    code: int = arguments.command(arguments)
    return code


def _planted(arguments: argparse.Namespace) -> int:
    code = 0
    print("| bug | what | test | verdict |\n|---|---|---|---|")
    with copied() as tree:
        for verdict in verdicts(
            tree,
            [bug for bug in ALL if bug.number in (arguments.numbers or [bug.number])],
        ):
            print(verdict, flush=True)
            code |= not verdict.kills
    return code


def _sample(arguments: argparse.Namespace) -> int:
    # Only here: it needs cosmic-ray.
    from tests.mutation.sample import fates, summary

    begun, found = time.monotonic(), []
    for fate in fates(arguments.count, arguments.seed, root=arguments.root):
        found.append(fate)
        print(fate, flush=True)
    print(f"\n{summary(found)}\n\n{time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
