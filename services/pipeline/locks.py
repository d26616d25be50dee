"""Keeps two jobs from writing the same tables at once, and a job from reading tables that another one writes.

A lock is one of the operating system, on a file beside the tables: it ends with the process that has it, however that
ends. Object stores and HDFS have none, nor do tables that a server of Spark Connect writes; there `ingest` still finds
what two jobs wrote twice (`bronze.doubles`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql.utils import is_remote

from quorate.pipeline.files import is_url, local_path

__all__ = ["LOCKED", "Locked", "Occupied", "locked"]


class Locked(NamedTuple):
    """The layers that a job writes, and those that it reads and must find unchanged until it ends."""

    writes: tuple[str, ...]
    reads: tuple[str, ...] = ()


LOCKED: Final[Mapping[str, Locked]] = {
    "ingest": Locked(("bronze",)),
    "stream": Locked(("bronze",)),
    "silver": Locked(("silver",)),  # bronze only grows, and `compact` changes no row
    "gold": Locked(("gold",), ("silver",)),
    "verify": Locked(("verify",), ("silver",)),
    "report": Locked((), ("silver", "gold", "verify")),
    "what-if": Locked((), ("silver",)),
    "compact": Locked(("compact",)),
}
"""The locks of each job; `run` locks what each of its jobs does, in turn."""
_WRITTEN: Final = {layer for each in LOCKED.values() for layer in each.writes}
# A layer that no job writes has no lock: a job that named it here would read it unlocked.
assert _WRITTEN.issuperset(layer for each in LOCKED.values() for layer in each.reads), LOCKED


class Occupied(OSError):
    """Another job has tables that this one needs."""


@contextmanager
def locked(root: str, job: str) -> Iterator[None]:
    """Holds the locks of a job on the tables below `root` during the block.

    Raises Occupied at once if another job has one of them. Where there are no locks (object stores, HDFS, Spark
    Connect), it does nothing.
    """
    wanted = LOCKED.get(job, Locked(()))
    place = None if is_remote() or is_url(root) else Path(local_path(root))
    with ExitStack() as held:
        if place is not None:
            for layer in wanted.writes:
                held.enter_context(_locked(place, layer, job, fcntl.LOCK_EX))
            for layer in wanted.reads:
                if _path(place, layer).exists():  # what was never written is not being written, and may be read-only
                    held.enter_context(_locked(place, layer, job, fcntl.LOCK_SH))
        yield


def _path(place: Path, layer: str) -> Path:
    return place / f".{layer}.lock"


@contextmanager
def _locked(place: Path, layer: str, job: str, kind: int) -> Iterator[None]:
    writes = kind == fcntl.LOCK_EX
    if writes:
        place.mkdir(parents=True, exist_ok=True)
    path = _path(place, layer)
    file = os.open(path, os.O_RDWR | os.O_CREAT if writes else os.O_RDONLY, 0o644)
    try:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(file, 200, 0).decode(errors="replace").strip() or "another job"
            does = "writes" if writes else "needs"
            raise Occupied(f"{job} {does} {place}/{layer}, which {other} has now: run it when that has ended") from None
        if writes:
            os.truncate(file, 0)
            os.pwrite(file, f"{job}, process {os.getpid()} on {os.uname().nodename},".encode(), 0)
        yield
        if writes:
            os.truncate(file, 0)
    finally:
        os.close(file)
