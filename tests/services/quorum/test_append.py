"""The RaftClient contract's Append: what the quorum node takes, and that a refusal voids what rested on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse, ListenRequest
from quorate.errors import ApiError, ErrorCode
from quorate.wire.batch import batches as batches_of
from services.quorum import appends
from services.quorum.controller_presence import ControllerPresence
from services.quorum.driver import QuorumDriver
from services.quorum.servicer import RaftClientService
from tests.services.nodes import RECORD, committed


async def test_takes_what_follows_and_says_where_the_log_ends(leader: QuorumDriver) -> None:
    answers = await append(leader, [request(1, base=1, count=2), request(2, base=3)])

    assert [(0, 3), (0, 4)] == [(answer.error_code, answer.end_offset) for answer in answers]


async def test_a_refusal_voids_what_rested_on_it_even_where_it_would_fit(leader: QuorumDriver) -> None:
    """The second batch begins where the log happens to end; it was decided on the first, which was not taken."""
    answers = await append(leader, [request(1, base=5), request(2, base=1), request(3, base=1, attempt=1)])

    assert [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NONE] == [
        ErrorCode(answer.error_code) for answer in answers
    ]
    assert [1, 1, 2] == [answer.end_offset for answer in answers]


async def test_refuses_another_epoch(leader: QuorumDriver) -> None:
    answers = await append(leader, [request(1, base=1, epoch=0), request(2, base=1, epoch=2, attempt=1)])

    assert [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH] == [
        ErrorCode(answer.error_code) for answer in answers
    ]
    assert leader.core.log.leo == 1


async def test_refuses_nothing_and_too_much(leader: QuorumDriver) -> None:
    answers = await append(
        leader, [request(1, base=1, count=0), AppendRequest(epoch=1, values=[bytes(9 << 20)], attempt=1)]
    )

    assert [ErrorCode.INVALID_REQUEST, ErrorCode.RECORD_LIST_TOO_LARGE] == [
        ErrorCode(answer.error_code) for answer in answers
    ]
    assert leader.core.log.leo == 1


async def test_each_append_of_a_message_has_its_batch_or_shares_it_with_neighbours_that_may(
    leader: QuorumDriver,
) -> None:
    kinds = [False, True, True, False, False, True]
    batches = [AppendRequest.Batch(values=[RECORD] * 2, may_join=may_join) for may_join in kinds]

    [answer] = await append(leader, [AppendRequest(epoch=1, base_offset=1, values=[RECORD], batches=batches)])

    await committed(leader, 14)
    assert (ErrorCode.NONE, 14) == (ErrorCode(answer.error_code), answer.end_offset)
    assert [1, 2, 4, 2, 2, 2] == [header.count for _, header in batches_of(leader.disk.read(1, 1 << 20))]


async def test_a_message_is_taken_whole_or_not_at_all(leader: QuorumDriver) -> None:
    batches = [AppendRequest.Batch(values=[RECORD]), AppendRequest.Batch()]

    [answer] = await append(leader, [AppendRequest(epoch=1, base_offset=1, batches=batches)])

    assert (ErrorCode.INVALID_REQUEST, 1) == (ErrorCode(answer.error_code), answer.end_offset)
    assert leader.core.log.leo == 1


async def test_leaves_appends_unread_while_too_much_is_on_its_way(
    leader: QuorumDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appends, "UNCOMMITTED_BYTES_MAX", 1_000)
    uncommitted: list[int] = []

    def many() -> Iterator[AppendRequest]:
        for offset in range(1, 101):
            uncommitted.append(leader.core.log.leo - leader.core.log.high_watermark)
            yield request(offset, base=offset)

    answers = await append(leader, many())

    one = len(leader.disk.read(1, 1))
    assert {ErrorCode.NONE} == {ErrorCode(answer.error_code) for answer in answers}
    assert 1_000 // one + 1 == max(uncommitted)


@pytest.mark.parametrize("value", [b"", b"\xff", b"\1\2\0", RECORD + b"\0"], ids=["empty", "frame", "body", "rest"])
async def test_a_value_that_is_no_record_is_refused_and_named(leader: QuorumDriver, value: bytes) -> None:
    batches = [AppendRequest.Batch(values=[RECORD, value])]

    for asked, where in (
        (AppendRequest(values=[value]), "values[0]"),
        (AppendRequest(batches=batches), "batches[0].values[1]"),
    ):
        for epoch in (0, 1, 2):
            asked.epoch, asked.base_offset = epoch, 1
            with pytest.raises(ApiError) as refused:
                await append(leader, [asked])

            assert (ErrorCode.INVALID_RECORD, where) == (refused.value.code, refused.value.metadata["field"])
    assert leader.core.log.leo == 1


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1])
async def test_an_offset_that_no_log_has_is_refused(leader: QuorumDriver, offset: int) -> None:
    with pytest.raises(ApiError, match="base_offset"):
        await append(leader, [request(1, base=offset)])
    servicer = RaftClientService(leader, ControllerPresence(leader, absence_timeout_ms=0))
    with pytest.raises(ApiError, match="next_offset"):
        await anext(aiter(servicer.Listen(ListenRequest(next_offset=offset), None)))
    assert leader.core.log.leo == 1


def request(correlation_id: int, *, base: int, count: int = 1, epoch: int = 1, attempt: int = 0) -> AppendRequest:
    return AppendRequest(
        correlation_id=correlation_id, epoch=epoch, base_offset=base, values=[RECORD] * count, attempt=attempt
    )


async def append(leader: QuorumDriver, requests: Iterable[AppendRequest]) -> list[AppendResponse]:
    async def stream() -> AsyncIterator[AppendRequest]:
        for each in requests:
            yield each

    servicer = RaftClientService(leader, ControllerPresence(leader, absence_timeout_ms=0))

    return [answer async for answer in servicer.Append(stream(), None)]
