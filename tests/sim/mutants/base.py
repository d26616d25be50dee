"""How bugs are planted in the core's tables. Their numbers are those of tests/sim/PLANTED.md."""

from __future__ import annotations

from quorate.raft import matrix
from tests.seeds.planting import Patch


def replace_row(patch: Patch, message: type, right: object, wrong: object) -> None:
    """Every role that answers `message` by `right` does so by `wrong`."""
    rows = {key: wrong if key[1] is message and how is right else how for key, how in matrix.ROWS.items()}
    patch.setattr(matrix, "ROWS", rows)


def replace_pursuit(patch: Patch, right: object, wrong: object) -> None:
    """Every role that pursues `right` pursues `wrong`."""
    pursuits = {role: tuple(wrong if how is right else how for how in all) for role, all in matrix.PURSUITS.items()}
    patch.setattr(matrix, "PURSUITS", pursuits)
