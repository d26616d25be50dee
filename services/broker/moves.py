"""AlterReplicaLogDirs (34): moves replicas between the log directories of this broker (KIP-113, KIP-858).

A copy is made beside the replica, which goes on to be written and read. Once the copy has all, it takes the replica's
place in one turn of the loop, and the controller gets its directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kraft.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.replication import invariants
from quorate.runtime.logging.logs import logger
from quorate.wire.items import Items, Steps
from services.broker.callers import Caller
from services.broker.cluster import NO_TOPIC_ID, Cluster
from services.broker.directories import LogDirectory
from services.broker.future_replica import FutureReplica
from services.broker.replicas import Replicas
from services.broker.store import PartitionStore
from services.broker.table import Hosted

__all__ = ["Moves"]

log = logger(__name__)

PATH_SHOWN: Final = 200
"""Letters of a path that somebody has sent."""

_Topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
_Result = _Topic.AlterReplicaLogDirPartitionResult


class Moves:
    """Moves replicas between this broker's log directories (AlterReplicaLogDirs, KIP-113).

    `answer` begins moves, `resume` begins those anew that were under way at the last stop. `run` copies each replica to
    a future replica, which takes its place once it has the whole log and is flushed.
    """

    def __init__(
        self,
        replicas: Replicas,
        store: PartitionStore,
        cluster: Cluster,
        *,
        placed: Callable[[Hosted], None],
        is_to_go: Callable[[Path], None],
    ) -> None:
        """`placed` hears of each replica that has another directory; `is_to_go` of files that are to be removed."""
        self._replicas = replicas
        self._store = store
        self._cluster = cluster
        self._placed = placed
        self._is_to_go = is_to_go
        self._moving: list[tuple[Hosted, FutureReplica]] = []
        self._news = asyncio.Event()
        self.idle = asyncio.Event()
        """Set while no replica is on its way."""

    # Requests

    def answer(
        self, request: AlterReplicaLogDirsRequest, directories: Sequence[LogDirectory], caller: Caller
    ) -> Steps[AlterReplicaLogDirsResponse]:
        """Answers AlterReplicaLogDirs, in steps, once the moves are begun: `run` carries them out.

        A replica that is named twice has its last path. One that is not here has an error, and is made in that
        directory if it comes. The errors of single replicas: CLUSTER_AUTHORIZATION_FAILED, LOG_DIR_NOT_FOUND,
        KAFKA_STORAGE_ERROR, and those of `Cluster.hosted`. To name the directory that a replica is in ends its move.
        """
        wanted: dict[tuple[str, int], str] = {}
        done = Items()
        for each in request.dirs:
            for topic in each.topics:
                for index in topic.partitions:
                    wanted[topic.name, index] = each.path
                    yield from done.one()
        known = {str(each.path.absolute()): each for each in directories}
        topics: dict[str, list[_Result]] = {}
        for (name, index), path in wanted.items():
            code = ErrorCode.NONE
            try:
                _check_right(caller)
                self._begin(TopicPartition(name, index), _directory(known, path))
            except ApiError as refusal:
                code = refusal.code
            topics.setdefault(name, []).append(_Result(index, code))
            yield  # a copy's directory is made, and synced
        return AlterReplicaLogDirsResponse(results=tuple(_Topic(name, tuple(each)) for name, each in topics.items()))

    def _begin(self, name: TopicPartition, directory: LogDirectory) -> None:
        """Has the replica move. Raises ApiError for one that is not here; it is made there if it comes (KIP-113)."""
        try:
            hosted = self._cluster.hosted(NO_TOPIC_ID, *name)
        except ApiError:
            self._store.prefer(name, directory)
            raise
        try:
            self._move(hosted, directory)
        except (OSError, Corrupt) as problem:
            _tell_failure(hosted, directory, problem)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be copied: {problem}") from None

    def resume(self) -> None:
        """Begins anew, with a new copy, the moves that the process before has not ended. A failure is logged."""
        for hosted in self._replicas.table:
            if (unfinished := self._store.unfinished(hosted.key)) is not None:
                directory, files = unfinished
                self._is_to_go(files)
                try:
                    self._move(hosted, directory)
                except (OSError, Corrupt) as problem:
                    _tell_failure(hosted, directory, problem)

    def _move(self, hosted: Hosted, directory: LogDirectory) -> None:
        """Has a replica move; a move of it to another directory ends, one to the same goes on."""
        if hosted.future is not None and hosted.future.directory is directory:
            return
        hosted.future = None
        if hosted.directory is not directory:
            hosted.future = self._store.begin_future(hosted, directory)
            self._moving.append((hosted, hosted.future))
            self.idle.clear()
            self._news.set()

    # Moves

    async def run(self) -> None:
        """Copies until cancelled. An error of a copy ends its move alone.

        Raises Corrupt, OSError where it was just taking the replica's place.
        """
        while True:
            self._news.clear()
            for hosted, future in tuple(self._moving):
                if not self._is_wanted(hosted, future):
                    self._give_up(hosted, future)
                else:
                    await self._go_on(hosted, future)
                await asyncio.sleep(0)
            if not self._moving:
                self.idle.set()
                await self._news.wait()

    def _is_wanted(self, hosted: Hosted, future: FutureReplica) -> bool:
        """Returns whether the replica is still there, and on its way to the copy's directory."""
        return hosted.future is future and self._replicas.table.get(hosted.key) is hosted

    async def _go_on(self, hosted: Hosted, future: FutureReplica) -> None:
        """Copies a piece, or flushes a copy that has all; once little of it is not flushed, it takes the place."""
        try:
            if not future.copy(hosted.log, now_ms=self._replicas.wall_ms):
                return
            if not future.is_flushed:
                await asyncio.to_thread(future.flush)  # what is cut off meanwhile it hears of, and does later
                return
        except (OSError, Corrupt) as problem:
            await self._fail(hosted, future, problem)
            return
        async with self._store.checkpoints:
            if not self._is_wanted(hosted, future) or not future.has_all_of(hosted.log):
                return  # that took long
            try:
                self._store.get_ready(hosted, future)
            except (OSError, Corrupt) as problem:
                await self._fail(hosted, future, problem)
                return
            self._put_in_place(hosted, future)

    async def _fail(self, hosted: Hosted, future: FutureReplica, problem: OSError | Corrupt) -> None:
        """Ends a move for good: the replica stays where it is. The disk space of the copy is free at once."""
        _tell_failure(hosted, future.directory, problem)
        if hosted.future is future:
            hosted.future = None
        self._moving.remove((hosted, future))
        await asyncio.to_thread(self._store.remove, self._store.discard(future))

    def _put_in_place(self, hosted: Hosted, future: FutureReplica) -> None:
        assert hosted.future is future, hosted.name
        assert future.has_all_of(hosted.log), hosted.name  # KIP-113
        before = hosted.directory.path
        hosted.log, gone = self._store.put_in_place(hosted, future)
        hosted.directory, hosted.future = future.directory, None
        hosted.partition.local.log = hosted.log
        self._moving.remove((hosted, future))
        invariants.check(hosted.partition)
        self._is_to_go(gone)
        self._placed(hosted)
        log.info("a replica has moved", partition=str(hosted.name), before=str(before), now=str(future.directory.path))

    def _give_up(self, hosted: Hosted, future: FutureReplica) -> None:
        """Ends a move that is not wanted any more."""
        self._moving.remove((hosted, future))
        self._is_to_go(self._store.discard(future))


def _check_right(caller: Caller) -> None:
    """Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) unless the caller may move replicas."""
    if not caller.may_on_cluster(AclOperation.ALTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ALTER on the cluster is required")


def _tell_failure(hosted: Hosted, directory: LogDirectory, problem: OSError | Corrupt) -> None:
    log.error(
        "a replica cannot be moved to another log directory",
        partition=str(hosted.name),
        stays=str(hosted.directory.path),
        wanted=str(directory.path),
        reason=str(problem),
    )


def _directory(known: dict[str, LogDirectory], path: str) -> LogDirectory:
    if (found := known.get(path)) is None:
        why = f"{path[:PATH_SHOWN]!r} is none of this broker's log directories: {', '.join(known)}"
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, why)
    return found
