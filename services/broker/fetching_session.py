"""A follower's end of a fetch session: it says to its leader only what has changed since its last fetch (KIP-227)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from kraft import Uuid
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ErrorCode
from quorate.nouns import Offset
from services.broker.fetch_session import NO_SESSION
from services.broker.fetch_sessions import EPOCH_MAX, FIRST
from services.broker.table import Key

__all__ = ["Bounds", "FetchingSession"]

ENDED: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""After these a reader says everything again."""

V = TypeVar("V")

_Topic = FetchRequest.FetchTopic
_Partition = _Topic.FetchPartition
_Data = FetchResponse.FetchableTopicResponse.PartitionData


class Bounds(NamedTuple):
    """A partition's high watermark and log start in the leader's last answer that has it: they still hold."""

    high_watermark: Offset
    log_start: Offset


class FetchingSession:
    """One follower's session at one leader, for one request at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST
        self._sent: dict[Key, _Partition] = {}
        self._told: dict[Key, Bounds] = {}
        self._gone: set[Key] = set()

    @property
    def is_new(self) -> bool:
        """Whether the next request has to say everything: the leader knows nothing of this reader."""
        return self._epoch == FIRST

    def forget(self, key: Key) -> None:
        """Stops fetching a partition. The next request that does not ask for it tells the leader."""
        if key in self._sent:
            self._gone.add(key)

    def request(self, wanted: Mapping[Key, _Partition], about: FetchRequest) -> FetchRequest:
        """Returns the session's next request, made from `about`, and takes it as sent.

        It has the partitions of `wanted` that are new or asked for otherwise than before, and names those that are no
        longer fetched. The leader goes on with all others as before (KIP-227).
        """
        if self.is_new:
            self._sent.clear()
            self._told.clear()
            self._gone.clear()
        new = {key: asked for key, asked in wanted.items() if self._is_other(key, asked)}
        gone, self._gone = self._gone - wanted.keys(), set()
        self._sent |= new
        for key in gone:
            del self._sent[key]
            self._told.pop(key, None)
        return msgspec.structs.replace(
            about,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=tuple(_Topic(topic_id=each, partitions=tuple(asked)) for each, asked in _by_topic(new).items()),
            forgotten_topics_data=tuple(
                FetchRequest.ForgottenTopic(topic_id=each, partitions=tuple(sorted(indexes)))
                for each, indexes in _by_topic({key: key.partition_id for key in gone}).items()
            ),
        )

    def take(self, answer: FetchResponse) -> dict[Key, _Data] | None:
        """Returns the partitions' parts of the leader's answer, and goes on to the next session epoch.

        None if the answer says that the session has ended: the next request then names all partitions. Any other error
        of the answer as a whole is the caller's to look at.
        """
        if answer.error_code in ENDED and not self.is_new:
            self.end()
            return None
        found: dict[Key, _Data] = {}
        for topic in answer.responses:
            for each in topic.partitions:
                key = Key(topic.topic_id, each.partition_index)
                found[key] = each
                if each.error_code:
                    self._told.pop(key, None)
                else:
                    self._told[key] = Bounds(each.high_watermark, each.log_start_offset)
        self._id = answer.session_id
        if self._id == NO_SESSION:
            self._epoch = FIRST
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return found

    def told(self, key: Key) -> Bounds | None:
        """Returns the leader's last answer on a partition, which holds while later ones leave it out; None for none."""
        return self._told.get(key)

    def end(self) -> None:
        """Ends the session: the next request names all partitions, and asks for a new one."""
        self._epoch = FIRST

    def _is_other(self, key: Key, asked: _Partition) -> bool:
        sent = self._sent.get(key)
        return sent is not asked and sent != asked


def _by_topic(found: Mapping[Key, V]) -> dict[Uuid, list[V]]:
    topics: dict[Uuid, list[V]] = {}
    for key, value in found.items():
        topics.setdefault(key.topic_id, []).append(value)
    return topics
