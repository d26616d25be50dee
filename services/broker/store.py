"""The partitions' directories in the log directories: found at a start, made, marked as deleted or stray; checkpoints.

A directory that the metadata log does not give this broker (any more) is not deleted but set aside as stray, as in
Kafka: the metadata may be wrong.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import Offset, parse_uuid
from quorate.partition_log.log import PartitionLog
from quorate.partition_log.names import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from quorate.partition_log.offset_checkpoints import TopicPartition, read_offsets, write_offsets
from quorate.partition_log.open_files import OpenFiles
from quorate.partition_log.settings import LogSettings
from quorate.random_uuid import random_uuid
from quorate.runtime.logging.logs import logger
from quorate.storage.files import sync_directory, write_synced
from quorate.storage.names import PARTITION_METADATA
from services.broker.directories import LogDirectories, LogDirectory
from services.broker.future_replica import FutureReplica, first_batch
from services.broker.table import Hosted, Key

__all__ = ["Opened", "PartitionStore"]

log = logger(__name__)

DELETED: Final = "delete"
STRAY: Final = "stray"
FUTURE: Final = "future"
READY: Final = "quorate-copy-is-ready"
"""A file in a copy's directory, once it has all and is about to take its place. Kafka's brokers know no such file, and
let it be; a suffix of ours they would refuse.
"""
NAME_MAX: Final = 255
"""The longest name that a file system takes; a topic's name is cut for that where a suffix follows."""
COPY_OPEN_MAX: Final = 1
"""Sealed segments of a copy that are open at once: it is written, and read by nobody."""
_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_SET_ASIDE: Final = re.compile(r".*-(\d+)\.[0-9a-f]{32}-(delete|stray|future)")
_TOPIC_ID: Final = re.compile(rb"topic_id: (\S+)")
_METADATA_LOG: Final = "__cluster_metadata"


class Opened(NamedTuple):
    """A partition's log, where it is, and the high watermark that was checkpointed for it; 0 if none was."""

    log: PartitionLog
    directory: LogDirectory
    high_watermark: Offset


class _Found(NamedTuple):
    directory: LogDirectory
    path: Path


_Checkpoints: TypeAlias = dict[str, dict[TopicPartition, Offset]]
"""By file, what a log directory says at a start of the partitions that are not opened yet."""


class PartitionStore:
    """Finds, makes, moves and removes partitions' directories in the log directories, and keeps their checkpoints."""

    def __init__(self, directories: LogDirectories) -> None:
        """Reads what is there, and removes what was marked as deleted. Raises Corrupt, OSError."""
        self._directories = directories.all
        self._found: dict[TopicPartition, _Found] = {}
        self._futures: dict[Key, _Found] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self._checkpoints: dict[Path, _Checkpoints] = {}
        self._counts: Counter[Path] = Counter()
        self._files = OpenFiles()
        self.checkpoints = asyncio.Lock()
        """Held while checkpoints are written, from when their content is settled, and while a replica takes a place."""
        self.has_opened_all = False
        """Whether all that was found is opened or set aside. Until then checkpoints keep what they had of the rest."""
        for directory in self._directories:
            self._checkpoints[directory.path] = {
                name: read_offsets(directory.path / name) for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS)
            }
            for path in sorted(directory.path.iterdir()):
                self._note(directory, path)

    def open(self, key: Key, name: TopicPartition, wanted: Uuid, settings: LogSettings) -> Opened:
        """Opens the log of a partition that this broker has, or makes it. Raises Corrupt, OSError.

        It is made in the log directory `wanted`, or else in the one that was asked for before it came (KIP-113), or in
        the one with the fewest partitions (KIP-858). One of another topic of this name is set aside. After an unclean
        stop it reads what was not flushed, which takes long.
        """
        checkpoints = self._checkpoints  # before what is found: both may be set aside meanwhile
        found = self._found.pop(name, None)
        if found is not None and _topic_id_of(found.path) not in (key.topic_id, None):
            self._set_aside(found, STRAY)
            found = None
        copy = self._copy_for(key, is_there=found is not None)
        if copy is not None:
            found = self._put(copy.path, copy.directory, name)
        if found is None:
            self._forget(name)
        directory = self._place(wanted, name) if found is None else found.directory
        before = checkpoints[directory.path]
        opened = PartitionLog(
            directory.path / str(name),
            key.topic_id,
            settings,
            clean=copy is not None or directory.marked_epoch is not None,
            recovery_point=before[RECOVERY_POINTS].get(name, 0) if found else 0,
            log_start=before[LOG_STARTS].get(name, 0) if found else 0,
            files=self._files,
        )
        if found is None:
            sync_directory(directory.path)
            self._counts[directory.path] += 1
        if opened.torn:
            what = {"partition": str(name), "bytes": opened.torn.size, "offset": opened.torn.offset}
            log.warning("cut off what an unclean stop has left at the end of a log", **what)
        return Opened(opened, directory, before[HIGH_WATERMARKS].get(name, 0) if found else 0)

    def set_strays_aside(self) -> None:
        """Renames the directories that were found and nobody has opened: they are of others' partitions, or of none.

        Copies of moves that nobody resumed are removed, and the checkpoints that were read are forgotten. Raises
        OSError.
        """
        for found in self._futures.values():
            self.remove(found.path)
        self._futures.clear()
        while self._found:
            name, found = self._found.popitem()
            log.warning("a partition's directory is of no partition of this broker: set aside", partition=str(name))
            self._set_aside(found, STRAY)
        self._checkpoints = {path: {file: {} for file in files} for path, files in self._checkpoints.items()}
        self.has_opened_all = True

    # Moves to another log directory

    def prefer(self, name: TopicPartition, directory: LogDirectory) -> None:
        """Notes in which log directory a partition is to be made, if it comes to this broker (KIP-113)."""
        self._preferred[name] = directory

    def unfinished(self, key: Key) -> tuple[LogDirectory, Path] | None:
        """Returns where a replica was moving when the process before ended, and the copy's path, for `remove`.

        The copy is marked as deleted, and not found again. None if the replica was not moving.
        """
        found = self._futures.pop(key, None)
        return None if found is None else (found.directory, _discarded(found))

    @staticmethod
    def discard(future: FutureReplica) -> Path:
        """Closes a copy that is not wanted any more, and marks it as deleted; returns its path, for `remove`."""
        future.log.abandon()
        return _discarded(_Found(future.directory, future.log.directory))

    def begin_future(self, hosted: Hosted, directory: LogDirectory) -> FutureReplica:
        """Makes an empty copy of a replica in another log directory. Raises Corrupt, OSError, and leaves nothing."""
        assert directory is not hosted.directory, (hosted.name, directory.path)
        path = directory.path / _aside(str(hosted.name), FUTURE)
        files = OpenFiles(COPY_OPEN_MAX)  # not those of the others, which are the loop's: a thread flushes a copy
        with ExitStack() as undone:
            undone.callback(self.remove, path)
            start = first_batch(hosted.log)
            copy = PartitionLog(path, hosted.key.topic_id, hosted.log.settings, log_start=start, files=files)
            undone.callback(copy.abandon)
            sync_directory(directory.path)
            undone.pop_all()
        return FutureReplica(directory, copy)

    @staticmethod
    def get_ready(hosted: Hosted, future: FutureReplica) -> None:
        """Flushes and closes a complete copy, and writes its offsets to the checkpoint files of its log directory.

        The replica is as it was, and the entries count once it is renamed. `checkpoints` is held from here until the
        table has the replica there. Raises Corrupt, OSError.
        """
        future.log.close()
        offsets = {
            LOG_STARTS: hosted.log.start,
            RECOVERY_POINTS: future.log.recovery_point,
            HIGH_WATERMARKS: hosted.partition.local.high_watermark,
        }
        for file, offset in offsets.items():
            path = future.directory.path / file
            write_offsets(path, {**read_offsets(path), hosted.name: offset})
        write_synced(future.log.directory / READY, b"")
        sync_directory(future.log.directory)

    def put_in_place(self, hosted: Hosted, future: FutureReplica) -> tuple[PartitionLog, Path]:
        """Puts a copy that is ready into a replica's place; returns its log, and the old log's path, for `remove`.

        The old log is closed, and marked as deleted. The copy is on the disk before the other is renamed: a start that
        finds only the copy takes it. `checkpoints` must be held. Raises OSError.
        """
        assert self.checkpoints.locked(), hosted.name  # else what `get_ready` has noted could be overwritten
        hosted.log.abandon()
        gone = self._set_aside(_Found(hosted.directory, hosted.log.directory), DELETED)
        found = self._put(future.log.directory, future.directory, hosted.name)
        opened = PartitionLog(found.path, hosted.key.topic_id, hosted.log.settings, clean=True, files=self._files)
        opened.take_over(hosted.log)
        return opened, gone

    def _put(self, path: Path, directory: LogDirectory, name: TopicPartition) -> _Found:
        found = _Found(directory, directory.path / str(name))
        path.rename(found.path)
        sync_directory(directory.path)
        (found.path / READY).unlink()
        self._counts[directory.path] += 1
        return found

    def delete(self, hosted: Hosted) -> Path:
        """Closes a log, unflushed, and marks its directory as deleted; returns that for `remove`. Raises OSError."""
        hosted.log.abandon()
        self._forget(hosted.name)
        return self._set_aside(_Found(hosted.directory, hosted.log.directory), DELETED)

    @staticmethod
    def remove(path: Path) -> None:
        """Removes a directory that was marked as deleted. The next start removes what is left of it."""
        shutil.rmtree(path, ignore_errors=True)

    def write_high_watermarks(self, table: Iterable[Hosted]) -> Iterator[tuple[Path, dict[TopicPartition, Offset]]]:
        """Yields the checkpoint file of each log directory, with the high watermarks for `write_offsets` to write.

        Nothing is written here.
        """
        yield from self._by_directory(HIGH_WATERMARKS, ((each, each.partition.local.high_watermark) for each in table))

    def write_starts_and_recovery_points(
        self, table: Iterable[Hosted]
    ) -> Iterator[tuple[Path, dict[TopicPartition, Offset]]]:
        """Yields checkpoint files, with the offsets to write: first the log starts above 0, then the recovery points.

        Nothing is written here: `write_offsets` does that.
        """
        every = tuple(table)
        yield from self._by_directory(LOG_STARTS, ((each, each.log.start) for each in every))
        yield from self._by_directory(RECOVERY_POINTS, ((each, each.log.recovery_point) for each in every))

    def close(self, table: Iterable[Hosted]) -> None:
        """Flushes and closes every log, and writes all checkpoints. Raises OSError."""
        every = tuple(table)
        for hosted in every:
            hosted.log.close()
        for path, offsets in (*self.write_high_watermarks(every), *self.write_starts_and_recovery_points(every)):
            write_offsets(path, offsets)

    def _note(self, directory: LogDirectory, path: Path) -> None:
        """Notes one entry of a log directory."""
        if not path.is_dir():
            return
        if (aside := _SET_ASIDE.fullmatch(path.name)) is not None:
            topic_id = _topic_id_of(path) if aside[2] == FUTURE else None
            if topic_id is not None and Key(topic_id, int(aside[1])) not in self._futures:
                self._futures[Key(topic_id, int(aside[1]))] = _Found(directory, path)
            elif aside[2] != STRAY:
                self.remove(path)
            return
        match = _NAME.fullmatch(path.name)
        if match is None or match[1] == _METADATA_LOG:
            return
        name = TopicPartition(match[1], int(match[2]))
        if name in self._found:
            raise Corrupt(f"{self._found[name].path} is of the same partition: one is a copy of the other", path=path)
        self._found[name] = _Found(directory, path)
        self._counts[directory.path] += 1

    def _copy_for(self, key: Key, *, is_there: bool) -> _Found | None:
        """Returns the copy that was about to take a replica's place, unless the replica is there, and goes on alone.

        A copy that is not ready has a part of the log: who is in the ISR with it could lead without what it has
        acknowledged.
        """
        copy = self._futures.get(key)
        if copy is None or not (copy.path / READY).exists():
            return None
        if is_there:
            (copy.path / READY).unlink()
            return None
        return self._futures.pop(key)

    def _forget(self, name: TopicPartition) -> None:
        """Forgets the checkpoints of a partition that is gone, or another topic's: one of its name begins anew."""
        for offsets in (each for files in self._checkpoints.values() for each in files.values()):
            offsets.pop(name, None)

    def _place(self, wanted: Uuid, name: TopicPartition) -> LogDirectory:
        preferred = self._preferred.pop(name, None)
        for directory in self._directories:
            if directory.id == wanted:
                return directory
        if preferred is not None:
            return preferred
        return min(self._directories, key=lambda directory: self._counts[directory.path])

    def _set_aside(self, found: _Found, why: str) -> Path:
        """Renames a partition's directory."""
        aside = found.directory.path / _aside(found.path.name, why)
        found.path.rename(aside)
        sync_directory(found.directory.path)
        self._counts[found.directory.path] -= 1
        assert self._counts[found.directory.path] >= 0, (found, self._counts)
        return aside

    def _by_directory(
        self, file: str, offsets: Iterable[tuple[Hosted, Offset]]
    ) -> Iterator[tuple[Path, dict[TopicPartition, Offset]]]:
        """Yields the file of each log directory, one without partitions included, with what belongs there.

        A log that is not opened yet keeps what the file has of it. No log start is listed that is 0.
        """
        every = {each.path: dict(self._checkpoints[each.path][file]) for each in self._directories}
        for hosted, offset in offsets:
            every[hosted.directory.path][hosted.name] = offset
        for path, found in every.items():
            yield path / file, {name: offset for name, offset in found.items() if offset or file != LOG_STARTS}


def _discarded(future: _Found) -> Path:
    """Marks a copy as deleted, so that no start goes on with it; without that if its disk takes no new name."""
    path = future.path.with_name(future.path.name.removesuffix(FUTURE) + DELETED)
    try:
        future.path.rename(path)
    except OSError:
        return future.path
    return path


def _aside(name: str, why: str) -> str:
    """Returns the name of a directory beside a partition's; a random part keeps it from an earlier one's."""
    topic, _, index = name.rpartition("-")
    suffix = f"-{index}.{bytes(random_uuid()).hex()}-{why}"
    return f"{topic[: NAME_MAX - len(suffix)]}{suffix}"


def _topic_id_of(directory: Path) -> Uuid | None:
    """Returns the topic's id in a partition's directory; None if its file is missing or says none."""
    try:
        match = _TOPIC_ID.search((directory / PARTITION_METADATA).read_bytes())
        return None if match is None else parse_uuid(match[1].decode("ascii"))
    except (FileNotFoundError, ValueError):
        return None
