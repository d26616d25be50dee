"""What became of a seed: passed, violated, or void if too little has happened to show anything."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tests.sim.invariants.base import Violation

PASSED, VIOLATED, VOID = "passed", "violated", "void"
CODE = "code"
"""In place of an invariant's number: an assertion of the code under test, or whatever a planted bug leads to."""


class World(Protocol):
    """A history that is yet to happen."""

    def run(self) -> None:
        """From the first event to the last. Raises Violation."""

    def missing(self) -> list[str]:
        """What has happened too seldom."""


class Verdict(NamedTuple):
    """What a seed came to, the number of what was broken, and in words; or what a void seed is missing."""

    verdict: str
    number: str = ""
    message: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    profile: str
    verdict: str
    number: str = ""
    message: str = ""
    digest: str = ""
    story: str = ""
    event_count: int = 0
    simulated_ms: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.profile}): {self.verdict} {self.message}"


def judge(world: World) -> Verdict:
    """Lets it happen."""
    try:
        world.run()
        missing = world.missing()
    except Violation as broken:
        return Verdict(VIOLATED, broken.number, str(broken))
    except Exception as error:
        return _blamed(_innermost(error))
    return Verdict(VOID, message="not enough: " + ", ".join(missing)) if missing else Verdict(PASSED)


def of(outcomes: Sequence[Outcome], verdict: str) -> list[Outcome]:
    """Those that ended so."""
    return [outcome for outcome in outcomes if outcome.verdict == verdict]


def _blamed(error: BaseException) -> Verdict:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename.rpartition('/')[2]}:{place.name}"
    number = error.number if isinstance(error, Violation) else CODE
    return Verdict(VIOLATED, number, f"{type(error).__name__} in {where}: {error}")


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
