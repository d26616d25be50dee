"""The logs that the pipeline's benches read: made for the run, or lying there already."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.spark import HOW_TO_GET, is_installed
from tests.bench.synthetic_clusters import LISTING, generate, plans

__all__ = ["Logs", "is_ready", "logs", "megabytes"]

SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Logs below `directory`; `lake` is a place for tables that is removed with them."""

    directory: Path
    lake: Path
    records: int
    bytes: int
    clusters: int
    batches: int

    def __str__(self) -> str:
        a_batch = self.records / self.batches
        return f"{self.records:,} records of {self.clusters} clusters, {megabytes(self.bytes)}, {a_batch:.0f} a batch"


def is_ready() -> bool:
    """Is there a Spark? If not, it is said what to do."""
    if not is_installed():
        sys.stderr.write(f"SKIPPED: {HOW_TO_GET}\n")
    return is_installed()


@contextmanager
def logs(
    records: int, there: Path | None = None, *, clusters: int = 1, segment_bytes: int | None = None
) -> Iterator[Logs]:
    """So many records; or those `there`, which `python -m tests.bench.synthetic` has made."""
    with TemporaryDirectory(prefix="quorate-bench-") as folder:
        lake = Path(folder) / "lake"
        if there is not None:
            made = json.loads((there / LISTING).read_text())
            yield _logs(there, lake, made)
            return
        rest = {} if segment_bytes is None else {"segment_bytes": segment_bytes}
        wanted = plans(Path(folder) / "logs", records=records, clusters=clusters, seed=SEED, **rest)
        found = [generate(plan) for plan in wanted]
        fields = [{"records": each.records, "bytes": each.bytes, "batches": each.batches} for each in found]
        yield _logs(Path(folder) / "logs", lake, fields)


def megabytes(size: float) -> str:
    """Bytes for people."""
    return f"{size / 1e6:,.0f} MB"


def _logs(directory: Path, lake: Path, made: list[dict[str, int]]) -> Logs:
    return Logs(
        directory=directory,
        lake=lake,
        records=sum(each["records"] for each in made),
        bytes=sum(each["bytes"] for each in made),
        clusters=len(made),
        batches=sum(each["batches"] for each in made),
    )
