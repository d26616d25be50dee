"""Fetch sessions: a reader says only what has changed since its last fetch, and is told only that (KIP-227).

A session has the partitions that its reader fetches, and what it was last told of each. Its epoch counts the requests,
so that one which was lost, or comes twice, is noticed. Sessions and their partitions are bounded; a reader that gets no
session has session id 0 in its answer, and says everything each time. In a follower's session most partitions rest
(`resting`).
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kraft import Uuid
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId, Offset
from quorate.replication import FetchPosition, Progress
from quorate.wire.items import Items, Steps
from services.broker.resting import Rest, Resting
from services.broker.table import Key

__all__ = ["Asked", "FetchContext", "FetchSessions"]

NO_SESSION: Final = 0
FIRST, LAST = 0, -1
"""Session epochs of a fetch that says everything: it wants a session, or it wants none."""
EPOCH_MAX: Final = (1 << 31) - 1
SLOTS: Final = 1_000
"""Kafka's `max.incremental.fetch.session.cache.slots`."""
PARTITIONS_MAX: Final = 200_000
"""Of all sessions together; each takes some 500 bytes, and 300 more while it rests."""
OF_CONSUMERS_MAX: Final = 100_000
OF_CONSUMER_MAX: Final = 10_000
"""Of consumers' sessions together, and of one: anybody may begin one, whatever it has a right to, and go."""
EVICTION_MS: Final = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`: a session that is used is safe from other readers."""
HAS_IDS: Final = 13
"""From this version on topics are named by their ids (KIP-516)."""
PER_PARTITION: Final = 2
"""What a partition of a session costs in items: some 4 us."""

_Partition = FetchRequest.FetchTopic.FetchPartition
_Data = FetchResponse.FetchableTopicResponse.PartitionData


class _Name(NamedTuple):
    """A partition as requests name it: by topic id, or by the topic's name."""

    topic_id: Uuid
    topic: str
    partition: int


@dataclass(slots=True)
class Asked:
    """One partition of a fetch. A session keeps it until its reader asks otherwise, and what was made of it."""

    topic_id: Uuid
    topic: str
    partition: _Partition
    position: FetchPosition | None = None
    """Where it is read, once that is made."""
    told: _Told | None = field(default=None, repr=False, compare=False)
    """What its reader was told last; None without a session."""

    @property
    def at(self) -> FetchPosition:
        """Where it is read; it has been looked at."""
        assert self.position is not None, self
        return self.position

    @property
    def name(self) -> _Name:
        return _Name(self.topic_id, self.topic, self.partition.partition)


@dataclass(slots=True)
class _Told:
    """A partition of a session, and what its reader was last told."""

    asked: Asked
    high_watermark: Offset = -1
    log_start: Offset = -1
    rests_as: Key | None = None
    """Its key while it rests, and after that until it is known to be awake."""

    def ask(self, asked: Asked) -> None:
        """Notes how the partition is fetched from now on."""
        self.asked, asked.told = asked, self


@dataclass(slots=True, kw_only=True)
class _Session:
    id: int
    has_ids: bool
    used_at_ms: int
    rest: Rest[_Told] | None
    """Of a follower; None for a consumer's."""
    next_epoch: int = 1
    is_under_way: bool = False
    """A fetch of this session is being answered."""
    counted: int = 0
    """Its partitions, as far as they are among those of all sessions."""
    partitions: dict[_Name, _Told]
    awake: OrderedDict[_Name, _Told] = field(default_factory=OrderedDict)
    """Those of them that do not rest; the one that was given records longest ago first: it is read first (KIP-74)."""

    @property
    def of_follower(self) -> bool:
        return self.rest is not None

    def rouse(self) -> list[_Told]:
        """Returns those that have woken, and are among the others from now on: they rested while those had records."""
        if self.rest is None:
            return []
        woken = [each for each in self.rest.take_woken() if self.partitions.get(each.asked.name) is each]
        for each in woken:
            each.rests_as = None
            self.awake[each.asked.name] = each
            self.awake.move_to_end(each.asked.name, last=False)
        return woken

    def ask(self, asked: Asked) -> None:
        """Has a partition fetched so from now on; one that rests is awake."""
        name = asked.name
        if (told := self.partitions.get(name)) is None:
            told = self.partitions[name] = _Told(asked)
        self._wake(told)
        told.ask(asked)
        self.awake.setdefault(name, told)

    def forget(self, name: _Name) -> None:
        """Has a partition fetched no more."""
        if (told := self.partitions.pop(name, None)) is not None:
            self._wake(told)
        self.awake.pop(name, None)

    def _wake(self, told: _Told) -> None:
        if self.rest is not None and told.rests_as is not None:
            self.rest.wake(told.rests_as)

    def take(self, data: _Data, told: _Told) -> bool:
        """Notes what a fetch finds in a partition; returns whether an incremental answer has it.

        It has records, an error, a divergence, and a high watermark or log start that has changed (KIP-227).
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
    """What one fetch asks for: what it says itself, or what its session has."""

    def __init__(self, asked: tuple[Asked, ...], session: _Session | None = None, *, is_full: bool = True) -> None:
        self.asked = asked
        self._session = session
        self._is_full = is_full

    def __enter__(self) -> None:
        """The fetch is under way; meanwhile its session takes no other one."""
        if self._session is not None:
            self._session.is_under_way = True

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.is_under_way = False

    @property
    def session_id(self) -> int:
        """The session that the answer names; 0 for none."""
        return NO_SESSION if self._session is None else self._session.id

    @property
    def rest(self) -> Rest[_Told] | None:
        """Those partitions of a follower's session that are not in `asked` because they rest."""
        return None if self._session is None else self._session.rest

    def woken(self) -> list[Asked]:
        """Returns those of them that have woken since this was made, or since the last call."""
        return [] if self._session is None else [each.asked for each in self._session.rouse()]

    def join_what_wakes(self, join: Callable[[Key, FetchPosition], None] | None) -> None:
        """Has each partition that wakes join the fetch while it waits; None: it does not wait."""
        rest = self.rest
        if rest is not None:
            rest.on_wake = None if join is None else lambda key, told: join(key, told.asked.at)

    def lay_to_rest(self, asked: Asked, key: Key, progress: Progress) -> None:
        """Lets a partition rest whose reader has all of it, and was told so (`has_told`)."""
        assert self._session is not None, asked
        assert asked.told is not None, asked
        if self._session.rest is not None and self._session.rest.add(key, progress, asked.told):
            asked.told.rests_as = key
            self._session.awake.pop(asked.name, None)

    def has_told(self, asked: Asked, *, high_watermark: Offset, log_start: Offset) -> bool:
        """Returns whether these bounds are no news to the reader of a session."""
        if self._is_full or (told := asked.told) is None:
            return False
        return told.high_watermark == high_watermark and told.log_start == log_start

    def is_told(self, asked: Asked, data: _Data) -> bool:
        """Returns whether the answer has this partition: in a session only if there is news."""
        told = None if self._session is None else self._session.partitions.get(asked.name)
        if self._session is None or told is None:  # forgotten by a request that came meanwhile
            return True
        return self._session.take(data, told) or self._is_full


class FetchSessions:
    """The sessions of one broker."""

    def __init__(
        self,
        resting: Resting | None = None,
        *,
        slots: int = SLOTS,
        partitions_max: int = PARTITIONS_MAX,
        of_consumers_max: int = OF_CONSUMERS_MAX,
        of_consumer_max: int = OF_CONSUMER_MAX,
    ) -> None:
        self._resting = Resting() if resting is None else resting
        self._slots = slots
        self._partitions_max = partitions_max
        self._of_consumers_max = of_consumers_max
        self._of_consumer_max = of_consumer_max
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        """The one used longest ago first."""
        self._partition_count = 0
        self._of_consumers = 0
        """Those of them that are of consumers' sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def context(
        self, request: FetchRequest, version: int, *, now_ms: int, follower: NodeId | None
    ) -> Steps[FetchContext]:
        """Returns what a request asks for, in steps. Raises ApiError, after which its reader has to say everything.

        `follower` is the one who asks, if it may; None for anybody else. FETCH_SESSION_ID_NOT_FOUND,
        INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        asked = yield from _asked(request)
        if request.session_epoch not in (FIRST, LAST):
            return (yield from self._incremental(request, asked, version, now_ms, follower))
        if request.session_id != NO_SESSION and (ended := self._sessions.get(request.session_id)) is not None:
            self._end(ended)
        if request.session_epoch == LAST or not asked:
            return FetchContext(asked)
        return FetchContext(asked, (yield from self._begun(asked, version >= HAS_IDS, follower, now_ms)))

    def _incremental(
        self, request: FetchRequest, asked: tuple[Asked, ...], version: int, now_ms: int, follower: NodeId | None
    ) -> Steps[FetchContext]:
        session = self._next(request, version)
        session.used_at_ms = now_ms
        self._sessions.move_to_end(session.id)
        session.is_under_way = True  # from the first step on
        try:
            yield from self._change(session, request, asked)
            yield from self._note_fetch(session, follower, now_ms)
        finally:
            session.is_under_way = False
        session.next_epoch = 1 if session.next_epoch == EPOCH_MAX else session.next_epoch + 1
        if not session.partitions:
            self._end(session)
            return FetchContext(())
        session.rouse()
        return FetchContext(tuple(each.asked for each in session.awake.values()), session, is_full=False)

    def _note_fetch(self, session: _Session, follower: NodeId | None, now_ms: int) -> Steps[None]:
        """Notes that the resting partitions are fetched, too; if somebody else than their follower asks, all wake."""
        if session.rest is None:
            return
        if session.rest.follower == follower:
            session.rest.fetched_at_ms = now_ms
            return
        done = Items()
        for key in session.rest.partitions:
            session.rest.wake(key)
            yield from done.one()

    def _next(self, request: FetchRequest, version: int) -> _Session:
        """Returns the session that a request goes on with. Raises ApiError."""
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {request.session_id}")
        if session.is_under_way:
            why = f"a fetch of fetch session {session.id} is under way; the next one follows its answer"
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, why)
        if request.session_epoch != session.next_epoch:
            why = f"fetch session {session.id} goes on with epoch {session.next_epoch}, not {request.session_epoch}"
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, why)
        if (version >= HAS_IDS) != session.has_ids:
            why = f"fetch session {session.id} names topics by {'ids' if session.has_ids else 'names'}"
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, why)
        return session

    def _change(self, session: _Session, request: FetchRequest, asked: tuple[Asked, ...]) -> Steps[None]:
        done = Items()
        for each in asked:
            session.ask(each)
            yield from done.many(PER_PARTITION)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.forget(_Name(topic.topic_id, topic.topic, index))
                yield from done.many(PER_PARTITION)
        if self._sessions.get(session.id) is not session:  # another reader's took its place between two steps
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.id} has ended")
        self._count(session, len(session.partitions))
        if why := self._too_many(session):
            self._end(session)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, why)

    def _begun(
        self, asked: tuple[Asked, ...], has_ids: bool, follower: NodeId | None, now_ms: int
    ) -> Steps[_Session | None]:
        """Returns a new session; None if there is no room for it."""
        of_follower = follower is not None
        of_consumer_max = min(self._partitions_max, self._of_consumers_max, self._of_consumer_max)
        if len(asked) > (self._partitions_max if of_follower else of_consumer_max):
            return None
        partitions, done = dict[_Name, _Told](), Items()
        for each in asked:
            told = partitions[each.name] = _Told(each)
            told.ask(each)
            yield from done.many(PER_PARTITION)
        if not self._has_room(len(partitions), of_follower, now_ms):
            return None
        session_id = random.randint(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = random.randint(1, EPOCH_MAX)
        session = _Session(
            id=session_id,
            has_ids=has_ids,
            used_at_ms=now_ms,
            rest=None if follower is None else Rest(self._resting, follower),
            partitions=partitions,
            awake=OrderedDict(partitions),
        )
        self._sessions[session_id] = session
        self._count(session, len(partitions))
        return session

    def _count(self, session: _Session, count: int) -> None:
        """Notes how many partitions a session has now."""
        self._partition_count += count - session.counted
        self._of_consumers += 0 if session.of_follower else count - session.counted
        session.counted = count

    def _too_many(self, session: _Session) -> str:
        """Returns the rule that a session which has grown breaks; nothing if there is room."""
        if self._partition_count > self._partitions_max:
            return f"all fetch sessions together have {self._partitions_max} partitions at most"
        if not session.of_follower and self._of_consumers > self._of_consumers_max:
            return f"all fetch sessions of consumers together have {self._of_consumers_max} partitions at most"
        if not session.of_follower and session.counted > self._of_consumer_max:
            return f"a consumer's fetch session has {self._of_consumer_max} partitions at most"
        return ""

    def _has_room(self, count: int, of_follower: bool, now_ms: int) -> bool:
        """Makes room by ending the session used longest ago, if it is idle, or a consumer's where a follower comes."""
        while self._is_full(count, of_follower):
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_at_ms < EVICTION_MS:
                consumers = (each for each in self._sessions.values() if not each.of_follower)
                if not of_follower or (oldest := next(consumers, oldest)).of_follower:
                    return False
            self._end(oldest)
        return True

    def _is_full(self, count: int, of_follower: bool) -> bool:
        if len(self._sessions) >= self._slots or self._partition_count + count > self._partitions_max:
            return True
        return not of_follower and self._of_consumers + count > self._of_consumers_max

    def _end(self, session: _Session) -> None:
        del self._sessions[session.id]
        self._count(session, 0)
        if session.rest is not None:
            session.rest.end()


def _asked(request: FetchRequest) -> Steps[tuple[Asked, ...]]:
    asked, done = [], Items()
    for topic in request.topics:
        for partition in topic.partitions:
            asked.append(Asked(topic.topic_id, topic.topic, partition))
            yield from done.one()
        yield from done.one()
    return tuple(asked)
