"""The RaftClient contract's Append: what the quorum node takes, and that a refusal voids what rested on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse
from quorate.errors import ErrorCode
from quorate.wire.batch import batches as batches_of
from services.quorum import driver
from services.quorum.attendance import Attendance
from services.quorum.driver import Driver
from services.quorum.servicer import ControllerServicer
from tests.services.nodes import RECORD, committed


async def test_takes_what_follows_and_says_where_the_log_ends(leader: Driver) -> None:
    answers = await append(leader, [request(1, base=1, count=2), request(2, base=3)])

    assert [(0, 3), (0, 4)] == [(answer.error_code, answer.end_offset) for answer in answers]


async def test_a_refusal_voids_what_rested_on_it_even_where_it_would_fit(leader: Driver) -> None:
    """The second batch begins where the log happens to end; it was decided on the first, which was not taken."""
    answers = await append(leader, [request(1, base=5), request(2, base=1), request(3, base=1, attempt=1)])

    assert [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE] == [
        ErrorCode(answer.error_code) for answer in answers
    ]
    assert [1, 1, 2] == [answer.end_offset for answer in answers]


async def test_refuses_another_epoch(leader: Driver) -> None:
    answers = await append(leader, [request(1, base=1, epoch=0), request(2, base=1, epoch=2, attempt=1)])

    assert [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH] == [
        ErrorCode(answer.error_code) for answer in answers
    ]
    assert leader.core.log.leo == 1


async def test_refuses_nothing_and_too_much(leader: Driver) -> None:
    answers = await append(
        leader, [request(1, base=1, count=0), AppendRequest(epoch=1, values=[bytes(9 << 20)], attempt=1)]
    )

    assert [ErrorCode.INVALID_REQUEST, ErrorCode.RECORD_LIST_TOO_LARGE] == [
        ErrorCode(answer.error_code) for answer in answers
    ]
    assert leader.core.log.leo == 1


async def test_each_append_of_a_message_has_its_batch_or_shares_it_with_neighbours_that_may(leader: Driver) -> None:
    kinds = [False, True, True, False, False, True]
    batches = [AppendRequest.Batch(values=[RECORD] * 2, may_join=may_join) for may_join in kinds]

    [answer] = await append(leader, [AppendRequest(epoch=1, base_offset=1, values=[RECORD], batches=batches)])

    await committed(leader, 14)
    assert (ErrorCode.NONE, 14) == (ErrorCode(answer.error_code), answer.end_offset)
    assert [1, 2, 4, 2, 2, 2] == [header.count for _, header in batches_of(leader.disk.read(1, 1 << 20))]


async def test_a_message_is_taken_whole_or_not_at_all(leader: Driver) -> None:
    batches = [AppendRequest.Batch(values=[RECORD]), AppendRequest.Batch()]

    [answer] = await append(leader, [AppendRequest(epoch=1, base_offset=1, batches=batches)])

    assert (ErrorCode.INVALID_REQUEST, 1) == (ErrorCode(answer.error_code), answer.end_offset)
    assert leader.core.log.leo == 1


async def test_leaves_appends_unread_while_too_much_is_on_its_way(
    leader: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "UNCOMMITTED_BYTES_MAX", 1_000)
    uncommitted: list[int] = []

    def many() -> Iterator[AppendRequest]:
        for offset in range(1, 101):
            uncommitted.append(leader.core.log.leo - leader.core.log.high_watermark)
            yield request(offset, base=offset)

    answers = await append(leader, many())

    one = len(leader.disk.read(1, 1))
    assert {ErrorCode.NONE} == {ErrorCode(answer.error_code) for answer in answers}
    assert 1_000 // one + 1 == max(uncommitted)


def request(correlation_id: int, *, base: int, count: int = 1, epoch: int = 1, attempt: int = 0) -> AppendRequest:
    return AppendRequest(
        correlation_id=correlation_id, epoch=epoch, base_offset=base, values=[RECORD] * count, attempt=attempt
    )


async def append(leader: Driver, requests: Iterable[AppendRequest]) -> list[AppendResponse]:
    async def stream() -> AsyncIterator[AppendRequest]:
        for each in requests:
            yield each

    servicer = ControllerServicer(leader, Attendance(leader, timeout_ms=0))

    return [answer async for answer in servicer.Append(stream(), None)]
