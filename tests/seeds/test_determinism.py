"""One seed is one history, in whatever process: nothing of the real time, the disk, chance or a hash order gets in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.seeds.many import digests
from tests.seeds.outcome import Outcome
from tests.sim import runner as quorum
from tests.sim.faults import PROFILES
from tests.sim_controller import runner as controller
from tests.sim_driver import runner as driver
from tests.sim_services import runner as services

HISTORIES: Final = {
    "sim": (quorum.run, list(enumerate(PROFILES))),
    "sim_controller": (controller.run, [(4,), (5,)]),
    "sim_driver": (driver.run, [(3,), (11,)]),
    "sim_services": (services.run, [(0,), (3,), (6,)]),
}
"""By simulator: seeds, with their profiles. In those of the services TaskGroups once went by the order of addresses."""


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(("run", "calls"), HISTORIES.values(), ids=HISTORIES)
def test_every_process_tells_the_same_story_of_a_seed_and_another_of_another(
    run: Callable[..., Outcome], calls: Sequence[tuple[object, ...]]
) -> None:
    """I-37 across PYTHONHASHSEED."""
    here, there = [run(*call).digest for call in calls], digests(run, *calls, hash_seed="4711")

    assert here == there
    assert len(calls) == len(set(here))
