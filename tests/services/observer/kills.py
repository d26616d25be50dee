"""Kills an observer that keeps a database, again and again under writes: `make observer-kills KILLS=100 SEED=`.

With a URL of PostgreSQL the database is that one, which must be empty; without one it is a file of SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.services.observer.test_state_keeper import killed

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="of an empty database; by default a file of SQLite")
    asked = parser.parse_args()
    with TemporaryDirectory() as place:
        url = asked.url or f"sqlite:///{place}/state.db"
        asyncio.run(killed(Path(place), url, kills=asked.kills, seed=asked.seed))
    print(f"{asked.kills} kills, seed {asked.seed}: the rows were those of the log each time")
