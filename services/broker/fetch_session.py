"""One fetch session: which partitions its reader fetches, its last answer on each, and one fetch of it (KIP-227).

Its epoch counts the requests, so that one which was lost, or comes twice, is noticed. In a follower's session most
partitions rest (`resting`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kraft import Uuid
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.replication import FetchPosition, Progress
from services.broker.resting import Rest
from services.broker.table import Key

__all__ = ["NO_SESSION", "Asked", "FetchContext", "Name", "Session", "Told"]

NO_SESSION: Final = 0

_Partition = FetchRequest.FetchTopic.FetchPartition
_Data = FetchResponse.FetchableTopicResponse.PartitionData


class Name(NamedTuple):
    """A partition as requests name it: by topic id, or by the topic's name."""

    topic_id: Uuid
    topic: str
    partition: int


@dataclass(slots=True)
class Asked:
    """One partition of a fetch, and what was made of it. A session keeps both until its reader asks otherwise."""

    topic_id: Uuid
    topic: str
    partition: _Partition
    position: FetchPosition | None = None
    """Where it is read, once that is made."""
    told: Told | None = field(default=None, repr=False, compare=False)
    """The last answer to its reader; None without a session."""

    @property
    def at(self) -> FetchPosition:
        """Where the partition is read, once `position` is made."""
        assert self.position is not None, self
        return self.position

    @property
    def name(self) -> Name:
        """The partition as requests name it."""
        return Name(self.topic_id, self.topic, self.partition.partition)


@dataclass(slots=True)
class Told:
    """A partition of a session, and the last answer on it."""

    asked: Asked
    high_watermark: Offset = -1
    log_start: Offset = -1
    rests_as: Key | None = None
    """Its key while it rests, and after that until it is known to be awake."""

    def ask(self, asked: Asked) -> None:
        """Has the partition fetched as `asked` says from now on, and makes this its `told`."""
        self.asked, asked.told = asked, self


@dataclass(slots=True, kw_only=True)
class Session:
    """One reader's fetch session: its partitions with the last answer on each, and those of them that do not rest."""

    id: int
    has_ids: bool
    used_at_ms: int
    rest: Rest[Told] | None
    """Of a follower; None for a consumer's."""
    next_epoch: int = 1
    is_under_way: bool = False
    """A fetch of this session is being answered."""
    counted: int = 0
    """Its partitions, as far as they are among those of all sessions."""
    partitions: dict[Name, Told]
    awake: OrderedDict[Name, Told] = field(default_factory=OrderedDict)
    """Those of them that do not rest; the one that was given records longest ago first: it is read first (KIP-74)."""

    @property
    def of_follower(self) -> bool:
        return self.rest is not None

    def rouse(self) -> list[Told]:
        """Returns the partitions that have woken since the last call, and counts them among those that do not rest.

        They are read first from now on: the others had records meanwhile. A consumer's session has none.
        """
        if self.rest is None:
            return []
        woken = [each for each in self.rest.take_woken() if self.partitions.get(each.asked.name) is each]
        for each in woken:
            each.rests_as = None
            self.awake[each.asked.name] = each
            self.awake.move_to_end(each.asked.name, last=False)
        return woken

    def ask(self, asked: Asked) -> None:
        """Has a partition fetched as `asked` says from now on, and wakes it if it rests."""
        name = asked.name
        if (told := self.partitions.get(name)) is None:
            told = self.partitions[name] = Told(asked)
        self._wake(told)
        told.ask(asked)
        self.awake.setdefault(name, told)

    def forget(self, name: Name) -> None:
        """Takes a partition out of the session, if it is in it."""
        if (told := self.partitions.pop(name, None)) is not None:
            self._wake(told)
        self.awake.pop(name, None)

    def _wake(self, told: Told) -> None:
        if self.rest is not None and told.rests_as is not None:
            self.rest.wake(told.rests_as)

    def take(self, data: _Data, told: Told) -> bool:
        """Notes what a fetch has found in a partition; returns whether an incremental answer has to have it (KIP-227).

        That is so with records, an error, a divergence, or another high watermark or log start than before. A partition
        with records is read last from now on (KIP-74).
        """
        is_new = (
            bool(data.records)
            or data.error_code != ErrorCode.NONE
            or data.diverging_epoch.end_offset >= 0
            or data.high_watermark != told.high_watermark
            or data.log_start_offset != told.log_start
        )
        told.high_watermark, told.log_start = data.high_watermark, data.log_start_offset
        if data.error_code:
            told.high_watermark = told.log_start = -1  # what follows the error is news
        if data.records:
            self.awake.move_to_end(told.asked.name)
        return is_new


class FetchContext:
    """The partitions that one fetch looks at (`asked`): those of the request, or those of its session that do not rest.

    It is entered while the fetch is answered: its session then takes no other fetch. With `is_full` the answer has
    every partition, else only those with news.
    """

    def __init__(self, asked: tuple[Asked, ...], session: Session | None = None, *, is_full: bool = True) -> None:
        self.asked = asked
        self._session = session
        self._is_full = is_full

    def __enter__(self) -> None:
        """The fetch is under way; meanwhile its session takes no other one."""
        if self._session is not None:
            assert not self._session.is_under_way, self._session.id
            self._session.is_under_way = True

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.is_under_way = False

    @property
    def session_id(self) -> int:
        """The session that the answer names; 0 for none."""
        return NO_SESSION if self._session is None else self._session.id

    @property
    def rest(self) -> Rest[Told] | None:
        """The partitions of a follower's session that rest, and so are not in `asked`; None for any other fetch."""
        return None if self._session is None else self._session.rest

    def woken(self) -> list[Asked]:
        """Returns the session's partitions that have woken since this fetch was begun, or since the last call.

        They are not in `asked`.
        """
        return [] if self._session is None else [each.asked for each in self._session.rouse()]

    def join_what_wakes(self, join: Callable[[Key, FetchPosition], None] | None) -> None:
        """Has `join` called with each partition that wakes from now on, and where it is read, while the fetch is held.

        None ends that. Only a follower's session has partitions that rest.
        """
        rest = self.rest
        if rest is not None:
            rest.on_wake = None if join is None else lambda key, told: join(key, told.asked.at)

    def lay_to_rest(self, asked: Asked, key: Key, progress: Progress) -> None:
        """Lets a partition of a follower's session rest: no fetch of it looks at the partition until it wakes.

        Its reader has all of its records, and knows its bounds (`has_told`).
        """
        assert self._session is not None, asked
        assert asked.told is not None, asked
        if self._session.rest is not None and self._session.rest.add(key, progress, asked.told):
            asked.told.rests_as = key
            self._session.awake.pop(asked.name, None)

    def has_told(self, asked: Asked, *, high_watermark: Offset, log_start: Offset) -> bool:
        """Returns whether the last answer on a partition, in this session, had this high watermark and this log start.

        False without a session, and for the first fetch of one.
        """
        if self._is_full or (told := asked.told) is None:
            return False
        return told.high_watermark == high_watermark and told.log_start == log_start

    def is_told(self, asked: Asked, data: _Data) -> bool:
        """Returns whether the answer has to have this partition, and notes in the session what it says of it.

        In a session that goes on only a partition with news is in the answer (`Session.take`).
        """
        told = None if self._session is None else self._session.partitions.get(asked.name)
        if self._session is None or told is None:  # forgotten by a request that came meanwhile
            return True
        return self._session.take(data, told) or self._is_full
