"""`python -m tests.sim soak | replay | mutants`"""

from __future__ import annotations

import sys

from tests.seeds.command import Simulator, main
from tests.seeds.outcome import Outcome
from tests.sim.faults import KAFKA, PROFILES, ROWS, Plan
from tests.sim.mutants.judge import DRAWN, MAX_SEEDS, kill
from tests.sim.runner import judged, run
from tests.sim.world import World


def replay(seed: int, profile: str | None, last: int | None) -> tuple[str, Outcome]:
    """Its plan, and every event."""
    world = World(seed, profile=profile, keeps_all=True)
    outcome = judged(world)
    return f"{Plan.drawn(seed, profile)}\n{world.trace.story(last)}", outcome


SIMULATOR = Simulator(
    name="tests.sim",
    run=run,
    replay=replay,
    profiles=(*PROFILES, KAFKA),
    rows=ROWS,
    mutants=DRAWN,
    kill=kill,
    seeds=1_000,
    chunk=25,
    limit=MAX_SEEDS,
)

if __name__ == "__main__":
    sys.exit(main(SIMULATOR))
