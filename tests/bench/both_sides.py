"""Controllers of a Kafka release and ours, alive at once on loopback in the clear, to be measured in turns."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from tests.bench.measure import Table, calibrate
from tests.bench.quorum_nodes import QUIET
from tests.interop.mixed_plan import MEASURED, PATIENT, Settings
from tests.interop.mixed_quorum import MixedQuorum, kafkas_alone, ours_first
from tests.run_loop import run_loop

VOTERS: Final = 3
DEFAULTS: Final[Settings] = {"controller.quorum.fetch.timeout.ms": 2_000, "broker.session.timeout.ms": 9_000}
"""The defaults of Kafka, for benches of failovers and of real brokers."""

Measure = Callable[[MixedQuorum, MixedQuorum, AsyncExitStack], Awaitable[list[Table]]]
"""Gets Kafka's quorum, ours, and a stack for what is to be ended before them."""


def run_both(measure: Measure, settings: Settings = PATIENT) -> list[Table]:
    """Starts three Kafka controllers and three nodes of ours, measures, and ends them.

    All have the same `settings`. Needs a JDK 17 and Maven.
    """
    os.environ.update(QUIET)
    return run_loop(_measured(measure, settings))


async def _measured(measure: Measure, settings: Settings) -> list[Table]:
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    try:
        async with AsyncExitStack() as life:
            quorums = (
                kafkas_alone(directory / "kafkas", ours=1, kafkas=VOTERS, settings=settings, peers=MEASURED),
                ours_first(directory / "ours", ours=VOTERS, kafkas=0, settings=settings),
            )
            kafkas, ours = [await life.enter_async_context(each) for each in quorums]
            return await measure(kafkas, ours, life)
    finally:
        shutil.rmtree(directory)


class Rounds:
    """Goes through so many rounds; `found` has the figures of each thing that was measured, by side."""

    def __init__(self, count: int) -> None:
        self.found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._count = count
        self._loops: list[float] = []

    def __iter__(self) -> Iterator[int]:
        """Times the calibration loop before each round."""
        for number in range(self._count):
            self._loops.append(calibrate())
            yield number

    def add(self, side: str, figures: Mapping[str, float]) -> None:
        """Keeps the figures of a side in a round."""
        for what, figure in figures.items():
            self.found[what][side].append(figure)

    @property
    def told(self) -> str:
        """The number of rounds, and the median of the calibration loop, for a title."""
        return (
            f"medians of {self._count} rounds in turns; calibration loop {statistics.median(self._loops) * 1000:.0f} ms"
        )
