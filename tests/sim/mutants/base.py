"""What a planted bug is: a number of reliability.md 2.6, one sentence, and how it is put in place of what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from quorate.raft import matrix
from tests.sim.faults import MIXED

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    """`plant` replaces what is right for as long as the patch holds. In worlds of `profile` it is met often.

    A rare bug is met in so few worlds that drawn seeds would take hours to find it: only its kept seed is run.
    """

    number: str
    what: str
    plant: Callable[[Patch], None]
    profile: str = MIXED
    is_rare: bool = False


def replace_row(patch: Patch, message: type, right: object, wrong: object) -> None:
    """Every role that answers `message` by `right` does so by `wrong`."""
    rows = {key: wrong if key[1] is message and how is right else how for key, how in matrix.ROWS.items()}
    patch.setattr(matrix, "ROWS", rows)


def replace_pursuit(patch: Patch, right: object, wrong: object) -> None:
    """Every role that pursues `right` pursues `wrong`."""
    pursuits = {role: tuple(wrong if how is right else how for how in all) for role, all in matrix.PURSUITS.items()}
    patch.setattr(matrix, "PURSUITS", pursuits)
