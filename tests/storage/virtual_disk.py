"""What a power cut leaves of a directory: only what was synced is sure, of files and of names alike.

The system calls under `os` are watched and let through, so the directory itself always shows what the running process
sees. Beside it the disk is kept: for each file what was synced and what was done since, for the directory the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

FATES = ("lost", "kept", "cut", "zeros")
"""Of what was done to a file since its last sync: nothing is there, all, some up to a byte, or the length only."""

Names = dict[str, "_File"]


@dataclass(eq=False)
class _File:
    synced: bytes = b""
    since: list[Callable[[bytearray], None]] = field(default_factory=list)
    writes: list[tuple[int, bytes] | None] = field(default_factory=list)  # None where `since` is no write

    def note(self, change: Callable[[bytearray], None], write: tuple[int, bytes] | None = None) -> None:
        self.since.append(change)
        self.writes.append(write)

    def sync(self) -> None:
        self.synced = self.with_changes(len(self.since))
        self.since, self.writes = [], []

    def forget(self) -> None:
        """A sync that fails: nothing since the last one is written by any later one."""
        self.since, self.writes = [], []

    def with_changes(self, count: int) -> bytes:
        data = bytearray(self.synced)
        for change in self.since[:count]:
            change(data)
        return bytes(data)

    def after_power_cut(self, random: Random) -> bytes:
        fate = random.choice(FATES)
        if fate == "lost" or not self.since:
            return self.synced
        if fate == "kept":
            return self.with_changes(len(self.since))
        at = random.randrange(len(self.since))
        before = self.with_changes(at)
        if fate == "zeros":
            return before + bytes(max(0, len(self.with_changes(len(self.since))) - len(before)))
        data = bytearray(before)
        if write := self.writes[at]:
            position, content = write
            _write(position, content[: random.randint(0, len(content))])(data)
        return bytes(data)


class VirtualDisk:
    """The disk under one directory. Files whose suffix is in `ignored` are not on it."""

    def __init__(self, directory: Path, *, ignored: tuple[str, ...]) -> None:
        self._directory = directory
        self._ignored = ignored
        self._is_watching = True
        self.fails = False
        """Whether a sync of a file fails: readers see what was written as before, and the disk never gets it."""
        self._names: Names = {path.name: _File(path.read_bytes()) for path in directory.iterdir()}
        self._durable = dict(self._names)
        self._renamings: list[Callable[[Names], None]] = []  # and creations, and removals, since the last sync
        self._open: dict[int, _File | None] = {}  # None is the directory

    def put(self, path: Path) -> None:
        """An empty file, durably and at once: somebody else's step."""
        with self._unwatched():
            path.touch()
        self._names[path.name] = self._durable[path.name] = _File()

    def drop(self, path: Path) -> None:
        """Remove a file, durably and at once: somebody else's step."""
        with self._unwatched():
            path.unlink()
        del self._names[path.name], self._durable[path.name]

    def after_power_cut(self, random: Random) -> dict[str, bytes]:
        """What may be there if the power goes now. Names change in order, as in a journal; files on their own."""
        names = dict(self._durable)
        for renaming in self._renamings[: random.randint(0, len(self._renamings))]:
            renaming(names)
        return {name: file.after_power_cut(random) for name, file in names.items()}

    @contextmanager
    def watched(self, before_each: Callable[[str], None]) -> Iterator[None]:
        """Follow the system calls, and tell of each before it is made."""
        real: dict[str, Any] = {
            name: getattr(os, name)
            for name in ("open", "close", "pwrite", "ftruncate", "fsync", "fdatasync", "replace", "unlink")
        }

        def open_(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
            where = Path(os.fspath(path)) if not isinstance(path, int) else None
            if where is None or not (where == self._directory or self._is_here(where)):
                return int(real["open"](path, flags, mode, **more))
            if where == self._directory:
                descriptor = int(real["open"](path, flags, mode, **more))
                self._open[descriptor] = None
                return descriptor
            before_each(f"open {where.name}")
            descriptor = int(real["open"](path, flags, mode, **more))
            file = self._names.get(where.name)
            if file is None:
                file = _File()
                self._rename(_link(where.name, file))
            elif flags & os.O_TRUNC:
                file.note(_cut(0))
            self._open[descriptor] = file
            return descriptor

        def close(descriptor: int) -> None:
            self._open.pop(descriptor, None)
            real["close"](descriptor)

        def pwrite(descriptor: int, data: bytes, position: int) -> int:
            if (file := self._open.get(descriptor)) is None:
                return int(real["pwrite"](descriptor, data, position))
            before_each("pwrite")
            written = int(real["pwrite"](descriptor, data, position))
            content = bytes(data[:written])
            file.note(_write(position, content), (position, content))
            return written

        def ftruncate(descriptor: int, size: int) -> None:
            if (file := self._open.get(descriptor)) is not None:
                before_each("ftruncate")
                file.note(_cut(size))
            real["ftruncate"](descriptor, size)

        def sync(descriptor: int) -> None:
            if descriptor in self._open:
                before_each("sync")
                self._sync(self._open[descriptor])

        def replace(source: Path, target: Path) -> None:
            if self._is_here(source):
                before_each(f"rename to {target.name}")
                self._rename(lambda names: names.update({target.name: names.pop(source.name)}))
            real["replace"](source, target)

        def unlink(path: Path) -> None:
            if self._is_here(path) and path.exists():
                before_each(f"unlink {path.name}")
                self._rename(lambda names: names.pop(path.name) and None)
            real["unlink"](path)

        ours = {"open": open_, "close": close, "pwrite": pwrite, "ftruncate": ftruncate}
        with patch.multiple(os, **ours, fsync=sync, fdatasync=sync, replace=replace, unlink=unlink):
            yield

    def _is_here(self, path: Path) -> bool:
        return self._is_watching and path.parent == self._directory and path.suffix not in self._ignored

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        self._is_watching = False
        try:
            yield
        finally:
            self._is_watching = True

    def _rename(self, renaming: Callable[[Names], None]) -> None:
        renaming(self._names)
        self._renamings.append(renaming)

    def _sync(self, file: _File | None) -> None:
        if file is not None and self.fails:
            file.forget()
            raise OSError(errno.EIO, "Input/output error")
        if file is not None:
            file.sync()
            return
        for renaming in self._renamings:
            renaming(self._durable)
        self._renamings = []


def _write(position: int, content: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data.extend(bytes(max(0, position - len(data))))
        data[position : position + len(content)] = content

    return change


def _cut(size: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        del data[size:]

    return change


def _link(name: str, file: _File) -> Callable[[Names], None]:
    def change(names: Names) -> None:
        names[name] = file

    return change
