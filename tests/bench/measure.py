"""How figures are taken: medians of at least five, beside a fixed piece of work that was timed in the same minute.

Two machines, or one machine at two times of day, differ by more than most changes do. So each figure is also given
as a ratio: how many records pass in the time that `calibrate` takes, which is the same work everywhere. Time is
CPU time of this process, so that a busy machine does not count; where a disk has a part, wall time is given too.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

REPEATS: Final = int(os.environ.get("BENCH_REPEATS", "5"))
CALIBRATION_STEPS: Final = 200_000


class Missing(Exception):
    """Raised where a bench needs a program that is not here; the message says which, and how it is got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of a table. `rate` is per second, `per_loop` the same per calibration loop.

    `spread` is (max - min) / median; `target` and `stretch` are rates.
    """

    what: str
    rate: float
    per_loop: float
    spread: float
    target: float | None = None
    stretch: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What one bench prints: `rows` of text under `columns`, and the same for machines in `data`."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    data: Sequence[Mapping[str, object]]

    def markdown(self) -> str:
        """The table as text that is a table also when nobody renders it."""
        widths = [max(len(row[i]) for row in (self.columns, *self.rows)) for i in range(len(self.columns))]
        lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in self.rows]
        head = " | ".join(cell.ljust(width) for cell, width in zip(self.columns, widths, strict=True))
        rule = "-|-".join("-" * width for width in widths)
        return "\n".join([f"### {self.title}", "", *(f"| {line} |" for line in (head, rule, *lines)), ""])

    def save(self, folder: Path, name: str) -> None:
        """The figures as JSON, to be compared later."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps({"title": self.title, "figures": list(self.data)}, indent=1))


def calibrate() -> float:
    """Seconds that a fixed piece of work takes, of the kind that this project does: slices, dicts, tuples, sums."""
    block = bytes(range(256)) * 16
    kept: dict[bytes, tuple[int, ...]] = {}
    start = time.process_time()
    for step in range(CALIBRATION_STEPS):
        at = step * 7 & 2047
        kept[block[at : at + 12]] = (step, at, len(kept))
    crc32c(block * 64)
    return time.process_time() - start


def rate(
    what: str,
    work: Callable[[], int],
    *,
    repeats: int = REPEATS,
    target: float | None = None,
    stretch: float | None = None,
) -> Figure:
    """How many of the things that `work` counts pass in a second. The collector runs as it does in a service."""
    work()  # the first time compiles and fills caches
    rates, loops = [], []
    for _ in range(repeats):
        gc.collect()
        loops.append(calibrate())
        start = time.process_time()
        count = work()
        rates.append(count / (time.process_time() - start))
    return figure(what, rates, loops, target=target, stretch=stretch)


def figure(
    what: str,
    rates: Sequence[float],
    loops: Sequence[float],
    *,
    target: float | None = None,
    stretch: float | None = None,
) -> Figure:
    """One line out of several measurements, each with the calibration that was taken beside it."""
    median = statistics.median(rates)
    return Figure(
        what=what,
        rate=median,
        per_loop=statistics.median(a * b for a, b in zip(rates, loops, strict=True)),
        spread=(max(rates) - min(rates)) / median,
        target=target,
        stretch=stretch,
    )


def rates_table(title: str, figures: Sequence[Figure]) -> Table:
    """Figures as rates, in thousands a second."""
    rows = [
        (
            each.what,
            *cells(each),
            f"{each.target / 1000:,.0f} k/s" if each.target else "",
            verdict(each.rate, each.target, each.stretch),
        )
        for each in figures
    ]
    columns = ("what", "median", "per loop", "spread", "target", "")
    return Table(title=title, columns=columns, rows=rows, data=[asdict(each) for each in figures])


def cells(figure: Figure) -> tuple[str, str, str]:
    """Median, rate per loop and spread, as text."""
    return f"{figure.rate / 1000:,.0f} k/s", f"{figure.per_loop:,.0f}", f"{figure.spread:.0%}"


def verdict(value: float, target: float | None, stretch: float | None) -> str:
    """A word on a rate, the more the better."""
    if target is None:
        return ""
    if stretch is not None and value >= stretch:
        return "stretch"
    return "met" if value >= target else "missed"


def memory(pid: int | None = None) -> Mapping[str, int]:
    """Bytes of a process, this one if none is named.

    `anonymous` without mapped files, `resident` with them, `peak` the most there ever was.
    """
    assert sys.platform == "linux", "memory is read from /proc"
    names = {"RssAnon": "anonymous", "VmRSS": "resident", "VmHWM": "peak"}
    fields = (line.split() for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines())
    return {names[key]: int(rest[0]) * 1024 for head, *rest in fields if (key := head.rstrip(":")) in names}


def cpu_seconds(pid: int) -> float:
    """What a process has used of all cores, from its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ms(seconds: float) -> str:
    """As text."""
    return f"{seconds * 1000:.2f} ms"


def us(seconds: float) -> str:
    """As text, in microseconds."""
    return f"{seconds * 1e6:,.0f} µs" if seconds >= 1e-5 else f"{seconds * 1e6:.1f} µs"


def percentile(values: Sequence[float], rank: int) -> float:
    """The value below which so many of a hundred lie."""
    return statistics.quantiles(values, n=100)[rank - 1]


def ratio_table(
    title: str,
    first: str,
    found: Mapping[str, Mapping[str, Sequence[float]]],
    names: Sequence[str],
) -> Table:
    """Medians of what was found on each side; a ratio above 1 says that a side is better than the first of `names`.

    A figure that ends with `/s` is a rate, the more the better. All else is in seconds, and what a side lacks is left
    blank.
    """
    rows, data = [], []
    theirs, *ours = names
    for what, by_side in found.items():
        is_rate = what.endswith("/s")
        values = {name: statistics.median(by_side[name]) for name in names if name in by_side}
        written = {name: f"{value:,.0f}" if is_rate else _span(value) for name, value in values.items()}
        cells = [what, written.get(theirs, "")]
        for name in ours:
            cells.append(written.get(name, ""))
            if name in values and theirs in values:
                ratio = values[name] / values[theirs]
                cells.append(f"{ratio if is_rate else 1 / ratio:.2f}")
            else:
                cells.append("")
        rows.append(tuple(cells))
        data.append({"what": what, **values})
    columns = (first, theirs, *(each for name in ours for each in (name, "better by")))
    return Table(title=title, columns=columns, rows=rows, data=data)


def _span(seconds: float) -> str:
    return ms(seconds) if seconds >= 1e-3 else us(seconds)
