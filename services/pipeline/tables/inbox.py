"""A directory of Parquet files that were written elsewhere; a table of plain Parquet adopts them by renaming them."""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["Inbox"]

SUCCESS: Final = "_SUCCESS"
"""The empty file that Spark leaves in a directory of Parquet; a table of this format is recognized by it."""
PREFIX: Final = ".inbox-"


class Inbox:
    """A new directory beside the tables, on their file system; readers ignore it, and the end of `with` deletes it.

    A job that is killed leaves its own. The operating system's lock on it ends with the job, so the next job that makes
    one deletes it.
    """

    def __init__(self, root: Path) -> None:
        """Makes the directory below `root`, where the tables are. Raises OSError."""
        self._root = root
        self._tellers: list[Callable[[str], object]] = []
        self.place = root / f"{PREFIX}{uuid.uuid4().hex}"
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root, fcntl.LOCK_EX):  # else another job may delete it before it is locked
            _delete_abandoned(root)
            self.place.mkdir()
            self._lock = ExitStack()
            self._lock.enter_context(_locked(self.place, fcntl.LOCK_SH))

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self._lock.close()

    def telling(self, on_adopted: Callable[[str], object]) -> Inbox:
        """Has `on_adopted` called with the name of each table that adopts files; returns this inbox."""
        self._tellers.append(on_adopted)
        return self

    def adopt(self, name: str, folder: str, files: Sequence[str]) -> None:
        """Moves files of a folder of this directory into a table; their paths are those of its partitions.

        Each appears whole. A kill meanwhile may leave some of them in the table, as if they were appended alone.
        """
        table = self._root / name
        for file in files:
            (table / file).parent.mkdir(parents=True, exist_ok=True)
            (self.place / folder / file).rename(table / file)
        (table / SUCCESS).touch()
        for tell in self._tellers:
            tell(name)

    def replace(self, name: str, folders: Mapping[str, Sequence[str]], *, whole: bool) -> None:
        """Moves files of this directory into partitions of a table, by their directories, in place of those there.

        `whole` replaces all of the table's partitions, too. After a kill meanwhile the table may lack rows.
        """
        table = self._root / name
        for old in [table] if whole else [table / folder for folder in folders]:
            shutil.rmtree(old, ignore_errors=True)
        table.mkdir(parents=True, exist_ok=True)
        for folder, files in folders.items():
            (table / folder).mkdir(parents=True)
            for file in files:
                (self.place / file).rename(table / folder / file)
        (table / SUCCESS).touch()


def _delete_abandoned(root: Path) -> None:
    """Deletes the directories of jobs that were killed."""
    for place in root.glob(f"{PREFIX}*"):
        # Raised if another job has it, or has deleted it meanwhile.
        with suppress(OSError), _locked(place, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(place)


@contextmanager
def _locked(directory: Path, kind: int) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)
