"""What a show is asked for, what it found, and the table of all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

FAULTS_S: Final = (0.5, 2.0, 5.0, 9.0, 12.0, 30.0)
"""How long a fault lasts: below and above each timeout of the plane, 1 s to 9 s."""
SHORT_S: Final = (1.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a show keeps its files, what it draws from, and whether its short form will do."""

    directory: Path
    random: Random
    is_short: bool

    def seconds(self) -> Sequence[float]:
        """How long the faults of one kind last, one after the other, in an order of chance."""
        return SHORT_S if self.is_short else self.random.sample(FAULTS_S, len(FAULTS_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of a show. `wrong` has a sentence for each thing that must not be, but for lost writes and fencings.

    `fenced` counts fencings, of brokers none of which ever fell silent.
    """

    show: str
    times: int = 0
    acknowledged: int = 0
    lost: int = 0
    fenced: int = 0
    gap_s: float = 0.0
    wrong: Sequence[str] = ()

    @property
    def holds(self) -> bool:
        return not (self.lost or self.fenced or self.wrong)


Show = Callable[[Asked], Awaitable[Row]]


def table_of(rows: Sequence[Row]) -> str:
    """Returns the table.

    >>> print(table_of([Row(show="pauses", times=7, acknowledged=90, gap_s=1.23, wrong=["a read was stale"])]))
    | show | times | acknowledged | lost | fenced | longest gap | wrong |
    |---|--:|--:|--:|--:|--:|---|
    | pauses | 7 | 90 | 0 | 0 | 1.2 s | a read was stale |
    """
    cells = (
        (each.show, each.times, each.acknowledged, each.lost, each.fenced, f"{each.gap_s:.1f} s", "; ".join(each.wrong))
        for each in rows
    )
    head = ("| show | times | acknowledged | lost | fenced | longest gap | wrong |", "|---|--:|--:|--:|--:|--:|---|")
    return "\n".join((*head, *(f"| {' | '.join(str(cell) or 'nothing' for cell in row)} |" for row in cells)))
