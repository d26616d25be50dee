"""AssignReplicasToDirs: tells the controller in which log directory a replica is, if it knows another (KIP-858)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from kraft import Uuid
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from quorate.errors import ApiError
from quorate.nouns import NodeId
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from services.broker.controllers import Controllers
from services.broker.table import Hosted, Key

__all__ = ["Placements"]

log = logger(__name__)

DEADLINE_MS: Final = 30_000
"""Kafka's `request.timeout.ms`."""
PAUSE_S: Final = 1.0
"""Between a request that failed and the next; Kafka's AssignmentsManager backs off likewise."""
AT_ONCE_MAX: Final = 2_250
"""The most partitions of one request: Kafka's `MAX_ASSIGNMENTS_PER_REQUEST`."""

_Directory = AssignReplicasToDirsRequest.DirectoryData
_Topic = _Directory.TopicData


class Placements:
    """Tells the controller the log directories of replicas (AssignReplicasToDirs): `run` sends what `note` is given."""

    def __init__(self, broker_id: NodeId, controllers: Controllers, broker_epoch: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._controllers = controllers
        self._broker_epoch = broker_epoch
        self._waiting: dict[Key, Uuid] = {}
        self._news = asyncio.Event()
        self._told = ChangeFilter()

    def note(self, hosted: Hosted) -> None:
        """Has `run` send the log directory that this replica is in now, in place of one that is not sent yet.

        If the metadata log has another directory later, it is noted again.
        """
        self._waiting[hosted.key] = hosted.directory.id
        self._news.set()

    async def run(self) -> None:
        """Sends the noted directories to the controller until cancelled.

        A request that fails is sent again, after a pause. An error for a single replica in the controller's answer is
        not looked at.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                taken = dict(list(self._waiting.items())[:AT_ONCE_MAX])
                if await self._tell(taken):
                    self._waiting = {
                        key: directory for key, directory in self._waiting.items() if taken.get(key) != directory
                    }
                else:
                    await asyncio.sleep(PAUSE_S)

    async def _tell(self, placed: dict[Key, Uuid]) -> bool:
        """Returns whether the controller has answered; what it refused for one replica is not repeated."""
        try:
            await self._controllers.ask(AssignReplicasToDirsResponse, self._request(placed), deadline_ms=DEADLINE_MS)
        except ApiError as error:
            if self._told.passes("assign", error.code.name, asyncio.get_running_loop().time()):
                log.warning("log directories are not assigned yet", code=error.code.name, reason=error.message)
            return False
        self._told.settle("assign")
        return True

    def _request(self, placed: dict[Key, Uuid]) -> AssignReplicasToDirsRequest:
        found: defaultdict[Uuid, defaultdict[Uuid, list[int]]] = defaultdict(lambda: defaultdict(list))
        for key, directory in placed.items():
            found[directory][key.topic_id].append(key.partition_id)
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=tuple(
                _Directory(
                    id=directory,
                    topics=tuple(
                        _Topic(topic_id=topic_id, partitions=tuple(_Topic.PartitionData(index) for index in indexes))
                        for topic_id, indexes in topics.items()
                    ),
                )
                for directory, topics in found.items()
            ),
        )
