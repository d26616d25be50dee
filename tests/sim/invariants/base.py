"""What the checkers know and no node does: the commit map C, filled at the first instant a leader commits."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.nouns import Epoch, Offset
from quorate.raft import VoterSet
from tests.sim.content import EMPTY_IMAGE, Cell, image_after


class Violation(AssertionError):
    """An invariant is broken. `number` is that of tests/INVARIANTS.md."""

    def __init__(self, number: str, rule: str, *values: object) -> None:
        super().__init__(f"{number} {rule}: {values}")
        self.number = number


def require(holds: bool, number: str, rule: str, *values: object) -> None:
    """Raises Violation unless it `holds`. What is asked at every turn is written out: the call would cost the most."""
    if not holds:
        raise Violation(number, rule, *values)


@dataclass
class Ledger:
    """C: every committed record from offset 0 on, the state after each, and the voters in force at the end."""

    first_voters: VoterSet
    cells: list[Cell] = field(default_factory=list)
    images: list[bytes] = field(default_factory=lambda: [EMPTY_IMAGE])
    voters: list[tuple[Offset, VoterSet]] = field(default_factory=list)
    """Committed sets by the offset of their batch."""
    ends: set[Offset] = field(default_factory=lambda: {0})
    """Where committed batches end."""
    commits: list[tuple[Epoch, Offset]] = field(default_factory=list)
    """By whom: the epoch of each leader that committed something new, and how far."""
    in_force: VoterSet | None = None
    """The set by which the last commit was counted: its leader's, whose record may itself not be committed yet."""

    @property
    def end(self) -> Offset:
        """Everything below is committed."""
        return len(self.cells)

    @property
    def voters_at_end(self) -> VoterSet:
        """The set in force after everything that is committed."""
        return self.voters[-1][1] if self.voters else self.first_voters

    def end_before(self, epoch: Epoch) -> Offset:
        """How far leaders of epochs below `epoch` have committed."""
        return max((end for led, end in self.commits if led < epoch), default=0)

    def extend(self, cells: list[Cell], epoch: Epoch) -> None:
        """The leader of `epoch` has committed more."""
        if self.commits and self.commits[-1][0] == epoch:
            self.commits.pop()
        self.commits.append((epoch, self.end + len(cells)))
        for cell in cells:
            self.images.append(image_after(self.images[-1], (cell,)))
        self.cells += cells
