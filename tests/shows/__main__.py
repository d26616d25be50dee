"""Faults of real processes under writers and brokers' heartbeats: `make shows`.

Prints what it does as it does it, and a table at the end; ends with 1 if something acknowledged was lost, a broker was
fenced that never fell silent, or anything else went wrong. The files of each show stay in its directory.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from deploy.local.processes import ROOT, NotReady
from quorate.errors import ApiError
from tests.run_loop import run_loop
from tests.shows import cut_doors, frozen_leader, hostile_environment, pauses, two_heartbeats, wiped_voters
from tests.shows.scene import what_of
from tests.shows.table import Asked, Row, Show, table_of

SHOWS: Final[Mapping[str, Show]] = {
    "hostile-environment": hostile_environment.show,
    "frozen-leader": frozen_leader.show,
    "wiped-voters": wiped_voters.show,
    "cut-doors": cut_doors.show,
    "pauses": pauses.show,
    two_heartbeats.NAME: two_heartbeats.show,
}


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=tuple(SHOWS), default=(), help="these shows")
    parser.add_argument("--short", action="store_true", help="each fault once, for a second")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="what is drawn is drawn from it")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "shows", help="deleted at first")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    rows = run_loop(run(chosen.only or tuple(SHOWS), chosen.directory, seed=chosen.seed, is_short=chosen.short))
    print(table_of(rows))
    return 0 if all(row.holds for row in rows) else 1


async def run(names: Sequence[str], directory: Path, *, seed: int, is_short: bool) -> list[Row]:
    """One show after the other, each with chances of its own; what stops one does not stop the next."""
    rows = []
    for name in names:
        asked = Asked(directory=directory / name, random=Random(f"{seed} {name}"), is_short=is_short)
        await asyncio.to_thread(shutil.rmtree, asked.directory, ignore_errors=True)
        try:
            rows.append(await SHOWS[name](asked))
        except (AssertionError, ApiError, NotReady, OSError) as problem:
            rows.append(Row(show=name, wrong=[f"stopped: {what_of(problem)}"]))
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
