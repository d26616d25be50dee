"""`python -m tests.bench [name…]`: measures, prints tables, keeps them as JSON under build/bench. Asserts no time."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.bench import checkpoint, codec, replay
from tests.bench.measure import Table, calibrate

FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "bench"
BENCHES: Final[dict[str, Callable[[], list[Table]]]] = {
    "codec": codec.run,
    "replay": replay.run,
    "checkpoint": checkpoint.run,
}


def main() -> None:
    """Run what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(BENCHES)}; all if none is given")
    parser.add_argument("--partitions", type=int, nargs="+", help="sizes of checkpoints, such as 2000000")
    given = parser.parse_args()
    unknown = sorted(set(given.name) - set(BENCHES))
    if unknown:
        parser.error(f"no bench {unknown}; there are {', '.join(BENCHES)}")
    print(f"Python {platform.python_version()}, {platform.machine()}; calibration loop {calibrate() * 1000:.0f} ms\n")
    for name in given.name or BENCHES:
        sized = name == "checkpoint" and given.partitions
        for number, table in enumerate(checkpoint.run(given.partitions) if sized else BENCHES[name]()):
            print(table.markdown(), flush=True)
            table.save(FOLDER, f"{name}-{number}" if number else name)


if __name__ == "__main__":
    main()
