"""Has queries answered by processes of their own, a few at once, so that no query holds up or ends the observer."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import sqlalchemy as sa

from kraft.service.observer_pb2 import QueryResponse
from quorate.errors import ApiError, ErrorCode
from services.observer.query_process import CAPS, HEAD, Kind

__all__ = ["QUERIES_MAX", "Queries"]

QUERIES_MAX: Final = 4
"""Queries that are answered at once: each is a process, with up to `CAPS.memory_bytes`."""
ANSWERED_S: Final = CAPS.seconds + 5
"""How long (s) the next part may take to come, with the start of the process: SQLite does not look at the clock while
one function runs."""
TAKEN_S: Final = 2 * CAPS.seconds
"""How long (s) an answer may take in all, with the time until its caller has taken it."""


class Queries:
    """Answers SQL on the database of the state at a URL, each query by a process of its own, `QUERIES_MAX` at once."""

    def __init__(self, url: str | None) -> None:
        self._url = None if url is None else sa.make_url(url)
        self._running = 0

    async def answer(self, sql: str) -> AsyncGenerator[QueryResponse, None]:
        """Yields the parts of an answer: first the columns and the offset of the state, then the rows.

        Raises ApiError, also between the parts: INVALID_REQUEST for SQL that is wrong, writes, or is beyond a cap, and
        if there is no file of SQLite; THROTTLING_QUOTA_EXCEEDED; COORDINATOR_NOT_AVAILABLE or
        COORDINATOR_LOAD_IN_PROGRESS while the database cannot be read, or has no state; UNKNOWN_SERVER_ERROR.
        """
        path = self._path()
        if self._running >= QUERIES_MAX:
            message = f"{QUERIES_MAX} queries are being answered already; one more has to wait for the end of one"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._running += 1
        process: Process | None = None
        try:
            async with asyncio.timeout(TAKEN_S):
                process = await _asked(path, sql)
                async for part in _parts(process):
                    yield part
        except TimeoutError:
            message = f"the answer was not taken within {TAKEN_S:g} s, the cap"
            raise ApiError(ErrorCode.INVALID_REQUEST, message) from None
        finally:
            self._running -= 1
            if process is not None:
                await _end(process)

    def _path(self) -> str:
        """Returns the database's file. Raises ApiError if there is none."""
        if self._url is None:
            reason = "this observer keeps no database of the state: observer.state.database.url is not set"
        elif self._url.get_backend_name() != "sqlite" or self._url.database is None:
            reason = "the database of the state is of PostgreSQL: ask that, as a role that may only read"
        else:
            return self._url.database
        raise ApiError(ErrorCode.INVALID_REQUEST, reason)


async def _asked(path: str, sql: str) -> Process:
    command = (sys.executable, "-m", "services.observer.query_process", path)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None, "PIPE"
    process.stdin.write(sql.encode("utf-8", "surrogatepass"))
    process.stdin.close()
    return process


async def _end(process: Process) -> None:
    """Ends a process, whatever it is doing, and takes what it has left, without which its pipe would stay open."""
    with suppress(ProcessLookupError):
        process.kill()
    assert process.stdout is not None, "PIPE"
    await process.stdout.read()
    await process.wait()


async def _parts(process: Process) -> AsyncGenerator[QueryResponse, None]:
    assert process.stdout is not None, "PIPE"
    while True:
        try:
            async with asyncio.timeout(ANSWERED_S):
                kind, size = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
                content = await process.stdout.readexactly(size)
        except TimeoutError:
            message = f"the query takes longer than {CAPS.seconds:g} s, the cap"
            raise ApiError(ErrorCode.INVALID_REQUEST, message) from None
        except asyncio.IncompleteReadError:
            code = await process.wait()
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the query's process ended with {code}") from None
        match kind:
            case Kind.PART:
                yield QueryResponse.FromString(content)
            case Kind.REFUSED:
                raise ApiError(ErrorCode.INVALID_REQUEST, content.decode())
            case Kind.DAMAGED:
                message = f"the database of the state is damaged: {content.decode()}"
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            case Kind.AWAY:
                message = f"the database of the state cannot be read now: {content.decode()}"
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            case Kind.EMPTY:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the database of the state has no state yet")
            case _:
                return
