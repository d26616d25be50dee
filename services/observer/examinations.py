"""Runs the doctor on a state in a process of its own, one at a time; its answer serves all who ask meanwhile."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

from kraft import Message
from kraft.service.observer_pb2 import ExamineRequest, ExamineResponse, LogPlace
from quorate.errors import ApiError, ErrorCode
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from quorate.runtime.following.replica import Replica
from services.observer.examine_process import SIZE
from services.observer.images import Images

__all__ = ["FRESH_S", "LIMIT_MAX", "Examinations", "Restartable"]

LIMIT: Final = 100
LIMIT_MAX: Final = 1_000
"""Findings in one answer, if the request does not say, and at most."""
TAKEN_S: Final = 50.0
"""How long (s) an examination may take: less than a call without a deadline has."""
FRESH_S: Final = 5.0
"""How old (s) an examination may be at least, although the state has changed since; or as long as it has taken, times
`REST`, so that it never costs more than a small part of a processor."""
REST: Final = 9.0


RESTARTABLE_BY: Final[tuple[type[Message], ...]] = (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
"""Records that may change which brokers can be restarted; of configs it is min.insync.replicas.

With the end of a transaction any of its records comes to be in the state.
"""


class Restartable:
    """Counts batches whose records may change which brokers can be restarted (`changes`); a snapshot counts, too."""

    def __init__(self) -> None:
        self.changes = 0

    def hear(self, records: Sequence[Message] | None) -> None:
        """Takes the records of a batch that is replayed; None for a snapshot, which may have any."""
        if records is None or any(isinstance(each, RESTARTABLE_BY) for each in records):
            self.changes += 1


class Examinations:
    """Has a replica's state examined by processes, one at a time; the last answer serves those who ask soon, too."""

    def __init__(self, replica: Replica, images: Images, restartable: Restartable) -> None:
        """`restartable` hears the records of the replica."""
        self._replica = replica
        self._images = images
        self._restartable = restartable
        self._begun_s = 0.0
        self._changes = 0
        self._lock = asyncio.Lock()
        self._last: ExamineResponse | None = None
        self._last_past: ExamineResponse | None = None
        self._fresh_until_s = 0.0

    async def answer(self, request: ExamineRequest) -> ExamineResponse:
        """Returns findings on the present state, or that at `request.at`, and which brokers can be restarted.

        Of the findings it is the part that the request asks for. That of the present may be some seconds old
        (`age_ms`); it has no restarts if these may be others by now (`restarts_outdated`). Raises ApiError:
        INVALID_REQUEST, REQUEST_TIMED_OUT after 50 s, COORDINATOR_LOAD_IN_PROGRESS before there is a state,
        UNKNOWN_SERVER_ERROR, and those of `Images.tell`.
        """
        limit = request.limit or LIMIT
        if not 0 < limit <= LIMIT_MAX:
            raise _invalid(f"limit {request.limit}: an answer has at most {LIMIT_MAX:,} findings, and at least one")
        if request.skip < 0:
            raise _invalid(f"skip {request.skip}: must be 0 or more")
        whole = await (self._past(request.at) if request.HasField("at") else self._present())
        wanted = request.search.casefold()
        found = [each for each in whole.findings if wanted in _text(each)] if wanted else list(whole.findings)
        answer = ExamineResponse(
            next_offset=whole.next_offset,
            findings=found[request.skip : request.skip + limit],
            matching_count=len(found),
            counts=whole.counts,
            restarts=whole.restarts,
        )
        if not request.HasField("at"):
            self._date(answer)
        return answer

    def _date(self, answer: ExamineResponse) -> None:
        """Says how old the last examination of the present is, and tells no restarts that may be others by now.

        An operator who restarts a broker by an old examination may take the last replica of an ISR.
        """
        answer.age_ms = round((asyncio.get_running_loop().time() - self._begun_s) * 1_000)
        answer.applied_offset = self._replica.applied
        answer.led_ms = self._images.led_ms()
        has_moved = answer.next_offset != answer.applied_offset
        answer.restarts_outdated = has_moved and self._changes != self._restartable.changes
        if answer.restarts_outdated:
            del answer.restarts[:]

    async def _present(self) -> ExamineResponse:
        if self._replica.applied == 0:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this service has not loaded its state yet")
        async with self._lock:
            clock = asyncio.get_running_loop().time
            last = self._last
            if last is not None and (last.next_offset == self._replica.applied or clock() < self._fresh_until_s):
                return last
            begun_s, changes = clock(), self._restartable.changes
            self._last = await self._examined()
            self._begun_s, self._changes = begun_s, changes
            self._fresh_until_s = clock() + max(FRESH_S, (clock() - begun_s) * REST)
            return self._last

    async def _past(self, at: LogPlace) -> ExamineResponse:
        """Returns the examination of the state at a place of the log; for the offset of the last one, that."""
        async with self._lock:
            last = self._last_past
            if last is None or at.WhichOneof("kind") != "offset" or at.offset != last.next_offset:
                last = self._last_past = await self._examined(at)
            return last

    async def _examined(self, at: LogPlace | None = None) -> ExamineResponse:
        command = (sys.executable, "-m", "services.observer.examine_process")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        try:
            async with asyncio.timeout(TAKEN_S):
                return await self._asked(process, at)
        except TimeoutError:
            message = f"the state is not examined within {TAKEN_S:g} s; `quorate doctor --observer` has no such cap"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message) from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            assert process.stdout is not None, "PIPE"
            await process.stdout.read()
            await process.wait()

    async def _asked(self, process: Process, at: LogPlace | None) -> ExamineResponse:
        assert process.stdin is not None, "PIPE"
        assert process.stdout is not None, "PIPE"
        with suppress(ConnectionError):  # if it has ended, its exit code tells more
            async with aclosing(self._images.tell(at)) as parts:
                async for part in parts:
                    data = part.SerializeToString()
                    process.stdin.write(SIZE.pack(len(data)) + data)
                    await process.stdin.drain()
            process.stdin.close()
        answer = await process.stdout.read()
        if (code := await process.wait()) != 0:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the examination's process ended with {code}")
        return ExamineResponse.FromString(answer)


def _text(finding: ExamineResponse.Finding) -> str:
    return f"{finding.severity} {finding.code} {finding.subject} {finding.sentence}".casefold()


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)
