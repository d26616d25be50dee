"""The metadata log of a Kafka cluster for a `Replica`: read over Kafka's own wire, as an observer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from quorate.network.client_config import Endpoint as Address
from quorate.network.client_config import client_files, parse_client_config
from quorate.network.metadata_fetch import UNNAMED
from quorate.network.observer import Checkpoint, FailedTry, FetchedBatch, Observer
from quorate.nouns import NodeId, Offset, ReplicaKey
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.following.log_reader import CommittedBatch, Event, LoadedSnapshot
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.setting_types import Endpoint
from quorate.tls.watched_files import WatchedFiles

__all__ = ["KafkaLog"]

log = logger(__name__)

TOLD_EVERY_MS: Final = 60_000
"""How often, in ms, a failure of a controller is logged again while its reason stays the same."""


class KafkaLog:
    """Reads the metadata log of a Kafka cluster from its start or a checkpoint on, as `LogReader` reads a Quorate log.

    It follows the leader across elections, and repeats failed tries. Without a `replica` nothing on the Kafka cluster
    changes: its controllers do not list this reader. A refusal that another try does not change ends the reading if
    nothing was read before. Later it is tried again, as the cause may pass: a controller that is being replaced, or an
    ACL entry that is missing for a while.

    The files of its certificates are looked at with each answer, and before a connection is opened again; new ones are
    for the connections after that.
    """

    def __init__(
        self,
        controllers: Sequence[Endpoint],
        properties: Mapping[str, str],
        clock: Clock,
        *,
        cluster_id: str | None,
        replica: ReplicaKey = UNNAMED,
    ) -> None:
        """`properties` are those of a Kafka client. Raises ValueError for one that is wrong."""
        self._properties = properties
        self._files = WatchedFiles(client_files(properties))
        self._observer = Observer(
            [(each.host, each.port) for each in controllers],
            parse_client_config(properties),
            cluster_id=cluster_id,
            replica=replica,
        )
        self._clock = clock
        self._has_read = False
        self._told: dict[tuple[str, int], tuple[str, int]] = {}

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster whose log is read; None until a controller has reported it."""
        return self._observer.cluster_id

    @property
    def leader_id(self) -> NodeId:
        """The node id of the leader in the last answer; -1 if it is unknown."""
        return self._observer.leader_id

    @property
    def leader_at(self) -> Address | None:
        """The address of the leader by the last answer of a controller; None if it is unknown."""
        return self._observer.leader_at

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether the log is read from a follower: never, as only a Kafka leader answers a Fetch of this log."""
        return False

    @property
    def high_watermark(self) -> Offset:
        """The highest high watermark (exclusive) that a leader has reported; 0 before the first."""
        return max(self._observer.high_watermark, 0)

    async def events(self) -> AsyncIterator[Event]:
        """Yields committed batches and loaded snapshots in order, until cancelled.

        Raises ApiError for a refusal before anything was read. Other failures are logged and tried again.
        """
        async with aclosing(self._observer.answers()) as answers:
            async for answer in answers:
                self._look()
                if isinstance(answer, FailedTry):
                    self._take_failure(answer)
                    continue
                if self._told:
                    log.info("the log is read again", high_watermark=self.high_watermark)
                    self._told.clear()
                self._has_read = True
                for each in answer:
                    yield self._event(each)

    def _look(self) -> None:
        """Takes certificates whose files have changed; the log has each refusal once."""
        refusal = self._files.look(self._take_files)
        if refusal is not None:
            log.warning("the new certificate is not taken, and the old one stays", reason=refusal)

    def _take_files(self) -> None:
        self._observer.config = parse_client_config(self._properties)
        log.info("took a new certificate", files=", ".join(map(str, client_files(self._properties))))

    def _event(self, found: FetchedBatch | Checkpoint) -> Event:
        if isinstance(found, Checkpoint):
            return LoadedSnapshot(end_offset=found.id.offset, epoch=found.id.epoch, data=found.data)
        return CommittedBatch(header=found.header, data=found.data, high_watermark=self.high_watermark)

    def _take_failure(self, failure: FailedTry) -> None:
        """Says why nothing was read, of each controller. Raises ApiError if that cannot change and nothing was read."""
        if failure.refusal is not None and not self._has_read:
            raise failure.refusal
        if failure.is_redirected:
            log.debug("redirected", reason=str(failure))
            return
        reason, now_ms = str(failure), self._clock.monotonic_ms()
        told, told_at_ms = self._told.get(failure.at, ("", 0))
        if reason != told or now_ms >= told_at_ms + TOLD_EVERY_MS:
            log.warning("a controller does not give its log", reason=reason)
            self._told[failure.at] = reason, now_ms
