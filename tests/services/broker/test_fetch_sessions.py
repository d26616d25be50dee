"""Fetch sessions (KIP-227): after each answer a reader knows what a fetch that says everything would tell it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft import Uuid
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.controller.engine.steps import finished
from quorate.errors import ApiError, ErrorCode
from services.broker.fetch_session import FetchContext
from services.broker.fetch_sessions import EVICTION_MS, FetchSessions
from services.broker.fetching_session import Bounds, FetchingSession
from services.broker.table import Key

TOPIC = Uuid(bytes(range(16)))
VERSION = 17
BY_NAME = 12
FOLLOWER = 2
KEYS = [Key(TOPIC, index) for index in range(4)]
Partition = FetchRequest.FetchTopic.FetchPartition
Data = FetchResponse.FetchableTopicResponse.PartitionData


def request(*indexes: int, session: tuple[int, int] = (0, 0), forgotten: tuple[int, ...] = ()) -> FetchRequest:
    topics = (FetchRequest.FetchTopic(topic_id=TOPIC, partitions=tuple(map(Partition, indexes))),) if indexes else ()
    gone = (FetchRequest.ForgottenTopic(topic_id=TOPIC, partitions=forgotten),) if forgotten else ()
    session_id, epoch = session
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=gone)


def context(
    sessions: FetchSessions, asked: FetchRequest, *, now_ms: int = 0, version: int = VERSION, of_follower: bool = False
) -> FetchContext:
    follower = FOLLOWER if of_follower else None
    return finished(sessions.context(asked, version, now_ms=now_ms, follower=follower))


def indexes(found: FetchContext) -> list[int]:
    return [each.partition.partition for each in found.asked]


def code_of(sessions: FetchSessions, asked: FetchRequest, *, version: int = VERSION) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        context(sessions, asked, version=version)
    return refused.value.code


def test_a_session_has_what_was_said_before_without_what_is_forgotten() -> None:
    sessions = FetchSessions()
    session_id = context(sessions, request(0, 1, 2)).session_id
    later = context(sessions, request(3, session=(session_id, 1), forgotten=(1,)))

    assert [0, 2, 3] == indexes(later)
    assert session_id == later.session_id


@pytest.mark.parametrize(
    ("epoch", "version", "code"),
    [
        (2, VERSION, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, BY_NAME, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_what_does_not_go_on_is_refused_and_the_session_stays(epoch: int, version: int, code: ErrorCode) -> None:
    sessions = FetchSessions()
    session_id = context(sessions, request(0)).session_id

    assert code == code_of(sessions, request(session=(session_id, epoch)), version=version)
    assert [0] == indexes(context(sessions, request(session=(session_id, 1))))


def test_a_session_ends_by_a_fetch_that_says_everything_and_when_nothing_is_left() -> None:
    sessions = FetchSessions()
    first, second, third = (context(sessions, request(0)).session_id for _ in range(3))
    assert 0 == context(sessions, request(0, session=(first, -1))).session_id
    renewed = context(sessions, request(0, session=(second, 0))).session_id
    assert 0 == context(sessions, request(session=(third, 1), forgotten=(0,))).session_id

    gone = {code_of(sessions, request(session=(each, 1))) for each in (first, second, third)}
    assert {ErrorCode.FETCH_SESSION_ID_NOT_FOUND} == gone
    assert [0] == indexes(context(sessions, request(session=(renewed, 1))))
    assert 1 == len(sessions)


def test_a_session_takes_one_fetch_at_a_time() -> None:
    sessions = FetchSessions()
    session_id = context(sessions, request(0)).session_id
    first = context(sessions, request(session=(session_id, 1)))
    with first:
        assert ErrorCode.INVALID_FETCH_SESSION_EPOCH == code_of(sessions, request(session=(session_id, 2)))
    assert [0] == indexes(context(sessions, request(session=(session_id, 2))))


def test_what_was_given_records_is_read_last_the_next_time() -> None:
    sessions = FetchSessions()
    first = context(sessions, request(0, 1, 2))
    assert first.is_told(first.asked[0], Data(partition_index=0, records=b"some"))

    assert [1, 2, 0] == indexes(context(sessions, request(session=(first.session_id, 1))))


def test_without_room_there_is_no_session_but_for_followers_and_in_place_of_idle_ones() -> None:
    sessions = FetchSessions(slots=2)
    first, second = (context(sessions, request(0)).session_id for _ in range(2))

    assert 0 == context(sessions, request(0)).session_id
    follower = context(sessions, request(0), of_follower=True).session_id
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND == code_of(sessions, request(session=(first, 1)))
    assert 0 != context(sessions, request(0), now_ms=EVICTION_MS).session_id
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND == code_of(sessions, request(session=(second, 1)))
    assert [0] == indexes(context(sessions, request(session=(follower, 1))))


def test_partitions_of_all_sessions_are_bounded_at_the_start_and_later() -> None:
    sessions = FetchSessions(partitions_max=3)

    assert 0 == context(sessions, request(0, 1, 2, 3)).session_id
    session_id = context(sessions, request(0, 1)).session_id
    assert 0 == context(sessions, request(0, 1)).session_id
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND == code_of(sessions, request(2, 3, session=(session_id, 1)))
    assert 0 != context(sessions, request(0, 1, 2)).session_id


def test_consumers_leave_room_for_followers() -> None:
    """Anybody may begin a session of partitions that it has no right to, and go: it stays for two minutes."""
    sessions = FetchSessions(partitions_max=9, of_consumers_max=3, of_consumer_max=2)

    assert 0 == context(sessions, request(0, 1, 2)).session_id
    session_id = context(sessions, request(0, 1)).session_id
    assert 0 == context(sessions, request(0, 1)).session_id
    assert 0 != context(sessions, request(0)).session_id
    assert 0 != context(sessions, request(0, 1, 2, 3), of_follower=True).session_id
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND == code_of(sessions, request(2, session=(session_id, 1)))
    assert 0 != context(sessions, request(0, 1)).session_id


@given(
    rounds=st.lists(
        st.fixed_dictionaries(
            {
                "wanted": st.frozensets(st.sampled_from(KEYS), min_size=1),
                "grown": st.frozensets(st.sampled_from(KEYS)),
                "trimmed": st.frozensets(st.sampled_from(KEYS)),
                "refused": st.frozensets(st.sampled_from(KEYS), max_size=1),
                "with_records": st.frozensets(st.sampled_from(KEYS), max_size=2),
                "diverging": st.frozensets(st.sampled_from(KEYS), max_size=1),
                "fate": st.sampled_from(["taken", "taken", "taken", "lost", "forgotten"]),
            }
        ),
        max_size=12,
    )
)
def test_a_reader_knows_what_a_fetch_without_a_session_would_tell(rounds: list[dict[str, Any]]) -> None:
    """Answers are lost with their connections, and the leader forgets sessions."""
    sessions, reader = FetchSessions(), FetchingSession()
    ends, starts = dict.fromkeys(KEYS, 0), dict.fromkeys(KEYS, 0)
    about = FetchRequest(replica_state=FetchRequest.ReplicaState(2, 7))
    for each in rounds:
        for key in each["grown"]:
            ends[key] += 1
        for key in each["trimmed"]:
            starts[key] += 1
        if each["fate"] == "forgotten":
            sessions = FetchSessions()
        wanted = {key: Partition(partition=key.partition_id, fetch_offset=ends[key] // 2) for key in each["wanted"]}
        for key in KEYS:
            if key not in wanted:
                reader.forget(key)
        found = None
        while found is None:
            asked = reader.request(wanted, about)
            found = reader.take(_answer(sessions, asked, ends, starts, each))
        if each["fate"] == "lost":
            reader.end()
            continue

        assert found.keys() <= wanted.keys()
        for key in wanted:
            data = found.get(key) or reader.told(key)
            assert data is not None
            if key in each["refused"]:
                assert isinstance(data, Data)
                assert ErrorCode.NOT_LEADER_OR_FOLLOWER == data.error_code
                continue
            known = data if isinstance(data, Bounds) else Bounds(data.high_watermark, data.log_start_offset)
            assert Bounds(ends[key], starts[key]) == known
            told = Data() if isinstance(data, Bounds) else data
            assert (key in each["with_records"]) == bool(told.records)
            assert (key in each["diverging"]) == (told.diverging_epoch.end_offset >= 0)


def _answer(
    sessions: FetchSessions, asked: FetchRequest, ends: dict[Key, int], starts: dict[Key, int], drawn: dict[str, Any]
) -> FetchResponse:
    try:
        found = context(sessions, asked)
    except ApiError as refusal:
        return FetchResponse(error_code=refusal.code)
    told = []
    for each in found.asked:
        key = Key(each.topic_id, each.partition.partition)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if key in drawn["refused"] else ErrorCode.NONE
        has_more = any(key in drawn[what] for what in ("refused", "with_records", "diverging"))
        if not has_more and found.has_told(each, high_watermark=ends[key], log_start=starts[key]):
            continue
        data = Data(
            partition_index=key.partition_id,
            error_code=code,
            high_watermark=-1 if code else ends[key],
            log_start_offset=-1 if code else starts[key],
            records=b"some" if key in drawn["with_records"] and not code else b"",
            diverging_epoch=Data.EpochEndOffset(1, 1)
            if key in drawn["diverging"] and not code
            else Data.EpochEndOffset(),
        )
        if found.is_told(each, data):
            told.append(data)
    topics = (FetchResponse.FetchableTopicResponse(topic_id=TOPIC, partitions=tuple(told)),)
    return FetchResponse(session_id=found.session_id, responses=topics)
