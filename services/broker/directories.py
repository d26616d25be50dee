"""The log directories of a broker: whose they are, their ids, and whether the process before has stopped in order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import NodeId, uuid_text
from quorate.partition_log.clean_shutdown import UNKNOWN_EPOCH, leave_mark, read_mark, remove_mark
from quorate.random_uuid import random_uuid
from quorate.runtime.settings.config import ConfigError
from quorate.storage.lock import DirectoryLock, Locked
from quorate.storage.meta_properties import MetaProperties, check_owner, write_meta_properties

__all__ = ["LogDirectories", "LogDirectory"]

SETTING: Final = "log.dirs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """One log directory. `id` is in its meta.properties, so that it stays the same wherever it is mounted (KIP-858)."""

    path: Path
    id: Uuid
    cluster_id: str
    marked_epoch: int | None
    """The broker epoch in the mark of a clean stop; None if there was no mark."""


class LogDirectories:
    """The log directories of this process (`all`, in the order of `log.dirs`), locked until `release`."""

    def __init__(self, paths: Sequence[Path], node_id: NodeId) -> None:
        """Locks and reads them. Raises ConfigError for one that is locked, Corrupt for one that is another broker's."""
        with ExitStack() as held:
            for path in paths:
                try:
                    held.enter_context(DirectoryLock(path))
                except (Locked, FileNotFoundError) as problem:
                    raise ConfigError([f"{SETTING} = {path}: {problem}"]) from None
            cluster_id = check_owner(paths[0], node_id=node_id).cluster_id
            self.all = tuple(_opened(path, node_id, cluster_id) for path in paths)
            self._check_ids()
            self._held = held.pop_all()

    @property
    def cluster_id(self) -> str:
        """The cluster that the directories are formatted for."""
        return self.all[0].cluster_id

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch at the clean stop before; -1 unless all directories have the mark of the same one (R2).

        Kafka's `LogManager.readBrokerEpochFromCleanShutdownFiles`. The controller removes a broker with another epoch
        than the one on record from all ELRs (KIP-966).
        """
        epochs = {each.marked_epoch for each in self.all}
        (epoch,) = epochs if len(epochs) == 1 else (None,)
        return UNKNOWN_EPOCH if epoch is None else epoch

    def begin(self) -> None:
        """Removes the marks of a clean stop, before any log is written: a crash then leaves none. Raises OSError."""
        for each in self.all:
            remove_mark(each.path)

    def leave_marks(self, broker_epoch: int) -> None:
        """Writes the mark of a clean stop, with this epoch, to each directory, once all logs are flushed and closed."""
        for each in self.all:
            leave_mark(each.path, broker_epoch=broker_epoch)

    def release(self) -> None:
        """Unlocks the directories, for another process."""
        self._held.close()

    def _check_ids(self) -> None:
        seen: dict[Uuid, Path] = {}
        for each in self.all:
            other = seen.setdefault(each.id, each.path)
            if other is not each.path:
                why = f"directory.id is {uuid_text(each.id)}, which {other} has, too: one is a copy of the other"
                raise Corrupt(why, path=each.path)


def _opened(path: Path, node_id: NodeId, cluster_id: str) -> LogDirectory:
    meta = check_owner(path, node_id=node_id, cluster_id=cluster_id)
    return LogDirectory(path=path, id=_id_of(path, meta), cluster_id=meta.cluster_id, marked_epoch=read_mark(path))


def _id_of(path: Path, meta: MetaProperties) -> Uuid:
    """Returns the directory's id. One that was formatted before KIP-858 gets one, as from Kafka's brokers."""
    if meta.directory_id is not None:
        return meta.directory_id
    directory_id = random_uuid()
    write_meta_properties(path, replace(meta, directory_id=directory_id))
    return directory_id
