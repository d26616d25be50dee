"""`python -m tests.sim_controller soak | replay | mutants`"""

from __future__ import annotations

import sys

from tests.seeds.command import Simulator, main
from tests.seeds.outcome import Outcome
from tests.sim_controller.judge import MAX_SEEDS, kill
from tests.sim_controller.mutants import MUTANTS
from tests.sim_controller.plan import PROFILES, ROWS
from tests.sim_controller.runner import judged, run
from tests.sim_controller.world import ControllerWorld


def replay(seed: int, profile: str | None, last: int | None) -> tuple[str, Outcome]:
    """Its plans, and every event."""
    world = ControllerWorld(seed, profile=profile, keeps_all=True)
    outcome = judged(world)
    return f"{world.cluster_plan}\n{world.plan}\n{world.trace.story(last)}", outcome


SIMULATOR = Simulator(
    name="tests.sim_controller",
    run=run,
    replay=replay,
    profiles=PROFILES,
    rows=tuple(sorted(ROWS)),
    mutants=MUTANTS,
    kill=kill,
    seeds=200,
    chunk=5,
    limit=MAX_SEEDS,
)

if __name__ == "__main__":
    sys.exit(main(SIMULATOR))
