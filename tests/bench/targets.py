"""Two sides of a bench as ratios, beside what was asked of them before."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.measure import Table

__all__ = ["Target", "target_table"]


@dataclass(frozen=True, slots=True)
class Target:
    """What one figure of the second side may be, as a multiple of the first side's; without bounds it is only
    printed."""

    what: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def text(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    def verdict(self, ratio: float) -> str:
        """A word on a ratio; none where nothing was asked."""
        if self.at_least is None and self.at_most is None:
            return ""
        is_met = (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)
        return "met" if is_met else "missed"


def target_table(
    title: str, targets: Sequence[Target], found: Mapping[str, Mapping[str, Sequence[float]]], sides: tuple[str, str]
) -> Table:
    """Medians of each side, in the order of `targets`; what was not found is left out."""
    rows, data = [], []
    theirs, ours = sides
    for target in targets:
        if target.what not in found:
            continue
        values = {side: statistics.median(found[target.what][side]) for side in sides}
        ratio = values[ours] / values[theirs]
        told = (f"{values[theirs]:,.4g}", f"{values[ours]:,.4g}", f"{ratio:.2f}")
        rows.append((target.what, *told, target.text, target.verdict(ratio)))
        data.append({"what": target.what, **values, "ratio": ratio, "each": dict(found[target.what])})
    return Table(title=title, columns=("what", theirs, ours, "ratio", "target", ""), rows=rows, data=data)
