"""`python -m tests.sim_driver soak | replay | mutants`"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tests.seeds.command import Simulator, main
from tests.seeds.outcome import Outcome
from tests.sim_driver.mutants import MUTANTS, UNMET, kill
from tests.sim_driver.runner import PROFILE, home, judged, run
from tests.sim_driver.world import World


def replay(seed: int, profile: str | None, last: int | None) -> tuple[str, Outcome]:
    """Its plan, and every event."""
    with home() as directory:
        world = World(seed, Path(directory), keeps_all=True)
        outcome = judged(world)
        return f"{world.plan}\n{world.trace.story(last)}", outcome


SIMULATOR = Simulator(
    name="tests.sim_driver",
    run=run,
    replay=replay,
    profiles=(PROFILE,),
    rows=(),
    mutants=(*MUTANTS, *UNMET),
    kill=kill,
    seeds=200,
    chunk=5,
    limit=60,
)

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # the nodes tell of each fault
    sys.exit(main(SIMULATOR))
