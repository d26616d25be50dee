"""Fetch sessions: a reader says only what has changed since its last fetch, and so does its answer (KIP-227).

Sessions and their partitions are bounded; a reader that gets no session has session id 0 in its answer, and says
everything each time.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from typing import Final

from kraft.api.fetch import FetchRequest
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId
from quorate.wire.items import Items, Steps
from services.broker.fetch_session import NO_SESSION, Asked, FetchContext, Name, Session, Told
from services.broker.resting import Rest, Resting

__all__ = ["FetchSessions"]

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
"""The cost of a session's partition in items: some 4 us."""


class FetchSessions:
    """The fetch sessions of one broker. They and their partitions are bounded; a new one may end one that is idle."""

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
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        """The one used longest ago first."""
        self._partition_count = 0
        self._of_consumers = 0
        """Those of them that are of consumers' sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def context(
        self, request: FetchRequest, version: int, *, now_ms: int, follower: NodeId | None
    ) -> Steps[FetchContext]:
        """Returns the partitions that a request fetches, in steps; begins, changes or ends its fetch session (KIP-227).

        `follower` is the id of a follower that may replicate; None for any other reader. `now_ms` is of the monotonic
        clock. If there is no room for a new session, the fetch has none. Raises ApiError, after which the reader has to
        name all its partitions again: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
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

    def _note_fetch(self, session: Session, follower: NodeId | None, now_ms: int) -> Steps[None]:
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

    def _next(self, request: FetchRequest, version: int) -> Session:
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

    def _change(self, session: Session, request: FetchRequest, asked: tuple[Asked, ...]) -> Steps[None]:
        done = Items()
        for each in asked:
            session.ask(each)
            yield from done.many(PER_PARTITION)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.forget(Name(topic.topic_id, topic.topic, index))
                yield from done.many(PER_PARTITION)
        if self._sessions.get(session.id) is not session:  # another reader's took its place between two steps
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.id} has ended")
        self._count(session, len(session.partitions))
        if why := self._too_many(session):
            self._end(session)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, why)

    def _begun(
        self, asked: tuple[Asked, ...], has_ids: bool, follower: NodeId | None, now_ms: int
    ) -> Steps[Session | None]:
        """Returns a new session; None if there is no room for it."""
        of_follower = follower is not None
        of_consumer_max = min(self._partitions_max, self._of_consumers_max, self._of_consumer_max)
        if len(asked) > (self._partitions_max if of_follower else of_consumer_max):
            return None
        partitions, done = dict[Name, Told](), Items()
        for each in asked:
            told = partitions[each.name] = Told(each)
            told.ask(each)
            yield from done.many(PER_PARTITION)
        if not self._has_room(len(partitions), of_follower, now_ms):
            return None
        session_id = random.randint(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = random.randint(1, EPOCH_MAX)
        session = Session(
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

    def _count(self, session: Session, count: int) -> None:
        """Notes how many partitions a session has now."""
        self._partition_count += count - session.counted
        self._of_consumers += 0 if session.of_follower else count - session.counted
        session.counted = count
        assert 0 <= self._of_consumers <= self._partition_count, (self._of_consumers, self._partition_count)

    def _too_many(self, session: Session) -> str:
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

    def _end(self, session: Session) -> None:
        del self._sessions[session.id]
        self._count(session, 0)
        assert self._sessions or not self._partition_count, self._partition_count
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
