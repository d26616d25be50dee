"""A directory of Parquet files that were written elsewhere; a table of plain Parquet adopts them by renaming them."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["Inbox"]

SUCCESS: Final = "_SUCCESS"
"""The empty file that Spark leaves in a directory of Parquet; a table of this format is recognized by it."""


class Inbox:
    """A new directory beside the tables, on their file system; readers ignore it, and it is deleted at the end."""

    def __init__(self, root: Path) -> None:
        """Makes the directory below `root`, where the tables are. Raises OSError."""
        self._root = root
        self._tellers: list[Callable[[str], object]] = []
        self.place = root / f".inbox-{uuid.uuid4().hex}"
        self.place.mkdir(parents=True)

    def __enter__(self) -> Inbox:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

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
