"""The past, by the database of the state: what changed, what differs, a watch that goes on, or the state at a place.

A watch holds no change of its own: it reads the next ones from the database once its caller has taken those before. So
a slow caller costs the observer one part of memory, and nobody else anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeVar

import sqlalchemy as sa

from kraft.service.observer_pb2 import (
    DiffImagesRequest,
    DiffImagesResponse,
    GetImageResponse,
    ListChangesRequest,
    ListChangesResponse,
    LogPlace,
    WatchImageRequest,
    WatchImageResponse,
)
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import Offset
from quorate.runtime.event_loop.daemon_threads import DaemonThreads
from quorate.sql.state_past import Cursor, Page, StatePast, StateReader, TooMany, UnknownState
from quorate.sql.subjects import Subject, subject_of
from services.observer.change_messages import gap_message, in_parts, logged
from services.observer.database import reason_of
from services.observer.engines import is_broken, reading_engine_of
from services.observer.image_messages import image_parts

__all__ = ["LIMIT_MAX", "WATCHES_MAX", "Changes"]

LIMIT_MAX: Final = 1_000
"""Changes in one page."""
READS_MAX: Final = 8
"""Pages and differences that are read, or wait for a thread, at once."""
THREADS: Final = 2
WATCHES_MAX: Final = 100
"""Watches at once: while nothing changes they share one look at the database."""
LOOK_S: Final = 0.05
"""The pause (s) between two looks at how far the database is, while somebody watches."""
TOLD_S: Final = 5.0
"""The longest time (s) until a watch of which nothing changes gets its offset again."""
IMAGE_S: Final = 60.0
"""How long (s) a state of the past may take to be sent: its transaction is open until then, and what is written
meanwhile stays in SQLite's WAL, and what is deleted in PostgreSQL's tables."""
WAIT_S: Final = 10.0
"""How long (s) a watch waits for a database that has not reached its offset, such as that of another observer."""

T = TypeVar("T")


class Changes:
    """Answers questions about the past by the database of the state at a URL; without one (None) it refuses each.

    Each raises ApiError: INVALID_REQUEST for a request that is wrong, or without a database; OFFSET_OUT_OF_RANGE for a
    place of which it knows nothing; THROTTLING_QUOTA_EXCEEDED for too many at once; COORDINATOR_NOT_AVAILABLE while it
    is away, COORDINATOR_LOAD_IN_PROGRESS while it has no state; UNKNOWN_SERVER_ERROR if it is damaged; and `image` also
    REQUEST_TIMED_OUT if its caller takes longer than `IMAGE_S`.
    """

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._reader: StateReader | None = None
        self._threads = DaemonThreads(THREADS, "state-reader")
        self._reads = 0
        self._watches = 0
        self._look = asyncio.Lock()
        self._looked_s = float("-inf")
        self._applied: Offset = 0

    def close(self) -> None:
        """Closes the connections to the database."""
        if self._reader is not None:
            self._reader.close()

    async def page(self, request: ListChangesRequest) -> ListChangesResponse:
        """Returns a page of changes between two places of the log, in order, and a token for the next.

        Raises ApiError.
        """
        subject, limit = _subject(request.subject), request.limit or LIMIT_MAX
        if not 0 < limit <= LIMIT_MAX:
            raise _invalid(f"limit {request.limit}: a page has at most {LIMIT_MAX:,} changes, and at least one")
        with self._one_of_reads():
            return await self._read(partial(_page, subject=subject, request=request, limit=limit))

    async def diff(self, request: DiffImagesRequest) -> AsyncGenerator[DiffImagesResponse, None]:
        """Yields the rows that differ between the two places of `request`, in parts; at least one part.

        Raises ApiError. All parts are made before the first is yielded.
        """
        subject = _subject(request.subject)
        with self._one_of_reads():
            parts = await self._read(partial(_diff, subject=subject, request=request))
            for part in parts:
                yield part

    async def image(self, at: LogPlace) -> AsyncGenerator[GetImageResponse, None]:
        """Yields the state at a place of the log as records without secrets, in parts, read by a thread of its own.

        The first part has the offset. Raises ApiError, also between parts: REQUEST_TIMED_OUT after `IMAGE_S`.
        """
        thread, parts = DaemonThreads(1, "state-image"), _image(self._past(), at)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + IMAGE_S
        try:
            while (part := await loop.run_in_executor(thread, next, parts, None)) is not None:
                if loop.time() >= ends_s:
                    message = f"the state was not taken within {IMAGE_S:g} s, the time for which one is held"
                    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message)
                yield part
        finally:
            thread.submit(parts.close)  # after the part that is under way, if its caller has gone

    async def watch(
        self, request: WatchImageRequest, recheck: Callable[[], None]
    ) -> AsyncGenerator[WatchImageResponse, None]:
        """Yields the changes from `from_offset` on, or from now on, in parts, until it is closed.

        The first part has the offset alone, and so has one every 5 s if nothing changes. `recheck` is called before
        each other part, and raises if the caller has lost its right. Raises ApiError, also between parts.
        """
        subject = _subject(request.subject)
        if self._watches >= WATCHES_MAX:
            message = f"{WATCHES_MAX} watches are open already; one more has to wait for the end of one"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._watches += 1
        try:
            begin = Cursor(await self._begin_of_watch(request))
            yield WatchImageResponse(next_offset=begin.offset)
            async with aclosing(self._parts(subject, begin)) as parts:
                async for part in parts:
                    recheck()
                    yield part
        finally:
            self._watches -= 1

    async def _begin_of_watch(self, request: WatchImageRequest) -> Offset:
        """Returns the offset from which a watch tells changes.

        Raises ApiError(OFFSET_OUT_OF_RANGE) if the database does not reach `from_offset` within `WAIT_S`, or has no
        changes from it on.
        """
        has_offset = request.HasField("from_offset")
        clock = asyncio.get_running_loop().time
        ends_s, end = clock() + WAIT_S, await self._end()
        while has_offset and end < request.from_offset:
            if clock() >= ends_s:
                reason = f"the database has the log up to {end}, and has not come there within {WAIT_S:g} s"
                raise _out_of_range(f"from_offset {request.from_offset}: {reason}")
            end = await self._moved()
        if not has_offset:
            return end
        begins = await self._read(StatePast.begins)
        if not begins <= request.from_offset:
            raise _out_of_range(f"from_offset {request.from_offset}: changes are known from offset {begins} on")
        return request.from_offset

    async def _parts(self, subject: Subject, cursor: Cursor) -> AsyncGenerator[WatchImageResponse, None]:
        """Yields the changes from a cursor on, in parts; an empty one now and then."""
        clock = asyncio.get_running_loop().time
        told_s = clock()
        while True:
            end = await self._end()
            while end <= cursor.offset and clock() - told_s < TOLD_S:
                end = await self._moved()
            part = WatchImageResponse(next_offset=cursor.offset)
            if cursor.offset < end:
                part, cursor = await self._read(partial(_next, subject=subject, cursor=cursor, end=end))
            if part.changes or part.gaps or clock() - told_s >= TOLD_S:
                yield part
                told_s = clock()

    async def _moved(self) -> Offset:
        """Returns how far the database is after a pause."""
        await asyncio.sleep(LOOK_S)
        return await self._end()

    async def _end(self) -> Offset:
        """Returns how far the database is, by a look that is not older than the pause between two."""
        clock = asyncio.get_running_loop().time
        async with self._look:
            if clock() - self._looked_s >= LOOK_S:
                self._applied = await self._read(_end_of)
                self._looked_s = clock()
        return self._applied

    @contextmanager
    def _one_of_reads(self) -> Iterator[None]:
        if self._reads >= READS_MAX:
            message = f"{READS_MAX} reads of changes are under way already; one more has to wait for the end of one"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._reads += 1
        try:
            yield
        finally:
            self._reads -= 1

    async def _read(self, work: Callable[[StatePast], T]) -> T:
        """Returns what `work` finds in the database, in a thread. Raises ApiError."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(_at_once, self._past(), work))

    def _past(self) -> StateReader:
        if self._url is None:
            raise _invalid("this observer keeps no database of the state: observer.state.database.url is not set")
        if self._reader is None:
            self._reader = StateReader(reading_engine_of(self._url))
        return self._reader


def _at_once(reader: StateReader, work: Callable[[StatePast], T]) -> T:
    with _reading(reader) as past:
        return work(past)


@contextmanager
def _reading(reader: StateReader) -> Iterator[StatePast]:
    """Yields the database as it is at one moment. Raises ApiError for what the block does not find there."""
    try:
        with reader.reading() as past:
            yield past
    except UnknownState as unknown:
        raise _out_of_range(str(unknown)) from None
    except TooMany as much:
        raise _invalid(str(much)) from None
    except sa.exc.DBAPIError as error:
        if is_broken(error):
            reason = f"the database of the state is damaged: {reason_of(error)}"
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, reason) from None
        reason = f"the database of the state cannot be read now: {reason_of(error)}"
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason) from None


class _Range(NamedTuple):
    begin: Cursor
    end: Offset


def _page(past: StatePast, *, subject: Subject, request: ListChangesRequest, limit: int) -> ListChangesResponse:
    begins, applied = past.begins(), _end_of(past)
    if request.page_token:
        begin, end = _of_token(request.page_token, applied)
        if begin.offset < begins:  # the retention has passed it between two pages
            raise _out_of_range(f"the list was at offset {begin.offset}: changes are known from offset {begins} on now")
    else:
        end = _offset(past, request.to, "to", applied, applied)
        first = _offset(past, getattr(request, "from"), "from", 0, applied)
        if end < first:
            raise _invalid(f"from {first} to {end}: the second offset is below the first")
        begin = Cursor(min(max(begins, first), end))
    page = past.changes(subject, begin=begin, end=end, limit=limit)
    since_ms = _ms(getattr(request, "from")) if not request.page_token else None
    found = logged(page.changes, past.gaps())
    following = page.cut(len(found)).following
    return ListChangesResponse(
        changes=found,
        next_page_token="" if following is None else ".".join(map(str, (*following, end))),
        from_offset=begin.offset,
        to_offset=end,
        begins_at_offset=begins,
        gaps=map(gap_message, past.gaps_within(begin.offset, end, since_ms=since_ms)),
    )


def _diff(past: StatePast, *, subject: Subject, request: DiffImagesRequest) -> list[DiffImagesResponse]:
    applied = _end_of(past)
    first = _offset_of_state(past, getattr(request, "from"), "from", 0, applied)
    last = _offset_of_state(past, request.to, "to", applied, applied)
    if last < first:
        raise _invalid(f"{first}..{last}: the second offset is below the first")
    parts = in_parts(past.diff(subject, first, last))
    return [DiffImagesResponse(rows=part, from_offset=first, to_offset=last) for part in parts]


def _image(reader: StateReader, at: LogPlace) -> Generator[GetImageResponse, None, None]:
    with _reading(reader) as past:
        applied = _end_of(past)
        offset = _offset_of_state(past, at, "at", applied, applied)
        records = ((record, record_version(record, LATEST)) for record in past.records(offset))
        yield from image_parts(offset, records)


def _next(past: StatePast, *, subject: Subject, cursor: Cursor, end: Offset) -> tuple[WatchImageResponse, Cursor]:
    if cursor.offset < (begins := past.begins()):
        raise _out_of_range(f"the watch was at offset {cursor.offset}: changes are known from offset {begins} on now")
    page: Page = past.changes(subject, begin=cursor, end=end, limit=LIMIT_MAX)
    found = logged(page.changes, past.gaps())
    following = page.cut(len(found)).following or Cursor(end)
    assert following > cursor, (cursor, following)  # else the watch would tell the same for ever
    gaps = past.gaps_within(cursor.offset, following.offset + (following.skip > 0))
    told = WatchImageResponse(changes=found, next_offset=following.offset, gaps=map(gap_message, gaps))
    return told, following


def _end_of(past: StatePast) -> Offset:
    """Returns how far the database is. Raises ApiError if it has nothing yet."""
    applied = past.applied()
    if applied is None:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the database of the state has no state yet")
    return applied.next_offset


def _offset(past: StatePast, place: LogPlace, name: str, absent: Offset, applied: Offset) -> Offset:
    """Returns the offset of a place. Raises ApiError for one beyond the state of the database."""
    match place.WhichOneof("kind"):
        case "offset":
            if not 0 <= place.offset <= applied:
                reason = f"the database has the log from 0 up to {applied}"
                raise _out_of_range(f"{name} {place.offset}: {reason}")
            return place.offset
        case "timestamp_ms":
            return past.offset_at(place.timestamp_ms, end=applied)
        case _:
            return absent


def _ms(place: LogPlace) -> int | None:
    return place.timestamp_ms if place.WhichOneof("kind") == "timestamp_ms" else None


def _offset_of_state(past: StatePast, place: LogPlace, name: str, absent: Offset, applied: Offset) -> Offset:
    """Returns the offset as of which the state is that of a place. Raises as `_offset`, and UnknownState."""
    if place.WhichOneof("kind") == "timestamp_ms":
        return past.offset_of_state_at(place.timestamp_ms, end=applied)
    return _offset(past, place, name, absent, applied)


def _of_token(token: str, applied: Offset) -> _Range:
    parts = token.split(".")
    if len(parts) == 3 and all(each.isascii() and each.isdecimal() and len(each) < 19 for each in parts):
        offset, skip, end = map(int, parts)
        if offset < end <= applied:
            return _Range(Cursor(offset, skip), end)
    raise _invalid(f"page_token {token[:80]!r}: it must be the next_page_token of a page before")


def _subject(text: str) -> Subject:
    try:
        return subject_of(text or None)
    except ValueError as problem:
        raise _invalid(f"subject {problem}") from None


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def _out_of_range(reason: str) -> ApiError:
    return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
