"""Runs a seed of real services, with files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.seeds.outcome import Outcome
from tests.sim_driver.runner import home, judged
from tests.sim_services.world import LeadingWorld, ServicesWorld, TwoWorld

PROFILE, LEADING, TWO = PROFILES = ("services", "leading", "two")
"""What is drawn; leaders that are left, while no process ends; and two heartbeat services."""
WORLDS: Final[dict[str, type[ServicesWorld]]] = {PROFILE: ServicesWorld, LEADING: LeadingWorld, TWO: TwoWorld}


def run(seed: int, profile: str = PROFILE) -> Outcome:
    """One seed, from its first event to its verdict."""
    with home() as directory:
        return judged(made(seed, Path(directory), profile), profile=profile)


def made(seed: int, directory: Path, profile: str, *, keeps_all: bool = False) -> ServicesWorld:
    """A world of this profile."""
    return WORLDS[profile](seed, directory, keeps_all=keeps_all)
