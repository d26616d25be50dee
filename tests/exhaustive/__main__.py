"""`python -m tests.exhaustive`: walks every state of a small cluster of real cores, and says how many there were."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields

from tests.exhaustive.bounds import Bounds
from tests.exhaustive.plants import PLANTS, planted
from tests.exhaustive.walk import Report, Walk


def main(arguments: list[str]) -> int:
    """0 if every state keeps the laws, 1 if one does not, 2 if not every state was seen."""
    options = parse(arguments)
    if options.plant is not None:
        plant = PLANTS[options.plant]
        with planted(plant):
            report = Walk(plant.bounds, states_max=options.states_max, progress=show).run()
    else:
        report = Walk(bounds_of(options), states_max=options.states_max, progress=show).run()
    print(verdict(report))
    return 1 if report.broken else 0 if report.is_complete else 2


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    for field in fields(Bounds):
        flag = "--" + field.name.removeprefix("is_").replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(flag, dest=field.name, action="store_true")
        else:
            parser.add_argument(flag, dest=field.name, type=int, default=field.default)
    parser.add_argument("--states-max", type=int, default=Walk.states_max, help="stop at so many states")
    parser.add_argument("--plant", choices=PLANTS, help="walk with this bug in the core, within its own bounds")
    return parser.parse_args(arguments)


def bounds_of(options: argparse.Namespace) -> Bounds:
    return Bounds(**{field.name: getattr(options, field.name) for field in fields(Bounds)})


def show(report: Report) -> None:
    """One line a level."""
    print(
        f"depth {report.depth:3}  states {report.states:10,}  transitions {report.transitions:11,}  "
        f"core steps {report.core_steps:8,}  {report.seconds:7.1f} s",
        flush=True,
    )


def verdict(report: Report) -> str:
    """What there is to be said at the end."""
    lines = [
        f"{report.states:,} states, {report.transitions:,} transitions, depth {report.depth}, {report.seconds:.0f} s",
        f"{report.node_values:,} values of a node, {report.core_steps:,} steps of the core, "
        f"{report.truncations:,} of them truncated",
        f"at most {report.leaders} epochs led and {report.committed} records committed in one history, "
        f"by voter sets of {report.voter_sets} sizes",
        f"{report.cut_by_epochs:,} transitions into an epoch beyond the bound were not followed",
    ]
    if report.broken is not None:
        steps = [f"{number:3}. {step}" for number, step in enumerate(report.path, 1)]
        return "\n".join([*lines, f"BROKEN: {report.broken}", *steps])
    return "\n".join([*lines, "complete" if report.is_complete else "not complete: cut by --states-max"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
