"""`python -m tests.sim_services soak | replay | mutants`"""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

from tests.seeds.command import Simulator, main
from tests.seeds.outcome import Outcome
from tests.seeds.planting import kill
from tests.sim_driver.runner import home, judged
from tests.sim_services.mutants import MUTANTS
from tests.sim_services.runner import PROFILE, PROFILES, made, run


def replay(seed: int, profile: str | None, last: int | None) -> tuple[str, Outcome]:
    """Its plan, and every event."""
    with home() as directory:
        world = made(seed, Path(directory), profile or PROFILE, keeps_all=True)
        outcome = judged(world, profile=profile or PROFILE)
        return f"{world.plan}\n{world.cluster}\n{world.trace.story(last)}", outcome


SIMULATOR = Simulator(
    name="tests.sim_services",
    run=run,
    replay=replay,
    profiles=PROFILES,
    rows=(),
    mutants=MUTANTS,
    kill=partial(kill, run),
    seeds=200,
    chunk=5,
    limit=60,
)

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # the nodes tell of each fault
    sys.exit(main(SIMULATOR))
