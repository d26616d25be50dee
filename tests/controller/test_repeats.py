"""A request that is sent again is written once and answered alike, by every leader; only what is committed counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from kraft import Message
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsResponse
from quorate.controller.engine import deduplication
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX, Command, Decision, Moment
from quorate.controller.engine.deduplication import DONE_BYTES_MAX, DONE_MAX, RequestDeduplication, RequestId, mark
from quorate.controller.engine.engine import Answer, Append, Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import ConfigRecord, FeatureLevelRecord, decode_record, request_of
from quorate.wire.schema import STRING_MAX

EPOCH = 3
ID = RequestId(b"an id of a write", CreateTopicsResponse)
ANOTHER = RequestId(b"an id of another", CreateTopicsResponse)


def put(value: str, *, times: int = 1, atomic: bool = True, topics: int = 1) -> Command[CreateTopicsResponse]:
    """Writes a config; the response is different for each value."""

    def command(_: ClusterState, __: Moment) -> Decision[CreateTopicsResponse]:
        records = tuple(ConfigRecord(TOPIC, "t", f"a{number}", value) for number in range(times))
        topic = CreateTopicsResponse.CreatableTopicResult(name=value)
        return Decision(CreateTopicsResponse(topics=(topic,) * topics), records, atomic)

    return command


def active(*records: Message) -> Engine:
    """An engine that leads after these committed records."""
    engine = Engine(ClusterState())
    engine.replay((FeatureLevelRecord(METADATA_VERSION, 25),), base_offset=0, end_offset=1)
    for offset, record in enumerate(records, start=1):
        engine.replay((record,), base_offset=offset, end_offset=offset + 1)
    engine.claim(EPOCH, engine.next_offset)
    return engine


def said(answers: tuple[Answer, ...]) -> list[tuple[object, object]]:
    """Who was answered with what: the topic's name, or the error's."""
    return [(answer.token, answer.error.code if answer.error else answer.response.topics[0].name) for answer in answers]


def committed(engine: Engine) -> list[tuple[object, object]]:
    """The quorum takes and commits everything."""
    engine.note_appended(engine.next_offset)
    engine.commit(engine.next_offset)
    return said(engine.ready().answers)


def written(append: Append) -> list[Message]:
    return [decode_record(value) for value in append.values]


def test_what_was_committed_is_answered_again_and_not_written_again() -> None:
    engine = active()
    engine.write("first", put("1"), now_ms=0, request_id=ID)
    (append,) = engine.ready().appends

    assert [("first", "1")] == committed(engine)

    engine.write("again", put("2"), now_ms=9, request_id=ID)
    ready = engine.ready()

    assert (1, ()) == (len(append.values), ready.appends)
    assert [("again", "1")] == said(ready.answers)


def test_what_is_under_way_is_waited_for() -> None:
    engine = active()
    engine.write("first", put("1"), now_ms=0, request_id=ID)
    engine.write("again", put("2"), now_ms=0, request_id=ID)
    ready = engine.ready()

    assert (1, ()) == (len(ready.appends), ready.answers)
    assert [("first", "1"), ("again", "1")] == committed(engine)


def test_another_leader_reads_it_off_the_log() -> None:
    engine = active()
    engine.write("first", put("1"), now_ms=0, traceparent=b"00-trace", request_id=ID)
    (append,) = engine.ready().appends
    successor = active(*written(append))
    successor.write("again", put("2"), now_ms=0, request_id=ID)

    assert [("again", "1")] == said(successor.ready().answers)


def test_what_was_lost_is_done_when_it_is_sent_again() -> None:
    engine = active()
    engine.write("lost", put("1"), now_ms=0, request_id=ID)
    engine.ready()
    engine.renounce()
    engine.claim(EPOCH + 1, engine.next_offset)
    engine.write("again", put("2"), now_ms=0, request_id=ID)

    assert [("lost", ErrorCode.NOT_CONTROLLER), ("again", "2")] == committed(engine)


def test_what_the_quorum_did_not_take_is_done_when_it_is_sent_again() -> None:
    engine = active()
    engine.write("refused", put("1"), now_ms=0, request_id=ID)
    engine.ready()
    engine.refuse_unappended(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
    engine.write("again", put("2"), now_ms=0, request_id=ID)

    assert [("refused", ErrorCode.KAFKA_STORAGE_ERROR), ("again", "2")] == committed(engine)


def test_decided_again_it_is_still_one_write() -> None:
    engine = active()
    engine.write("first", put("1"), now_ms=0, request_id=ID)
    engine.write("again", put("2"), now_ms=0, request_id=ID)
    engine.ready()
    engine.decide_again(engine.appended + 1)
    (append,) = engine.ready().appends

    assert 1 == len(append.values)
    assert [("first", "1"), ("again", "1")] == committed(engine)


def test_a_refusal_is_not_remembered() -> None:
    def refuse(_: ClusterState, __: Moment) -> Decision[CreateTopicsResponse]:
        raise ApiError(ErrorCode.INVALID_REQUEST, "no")

    engine = active()
    engine.write("refused", refuse, now_ms=0, request_id=ID)
    engine.write("again", put("1"), now_ms=0, request_id=ID)

    assert [("refused", ErrorCode.INVALID_REQUEST)] == said(engine.ready().answers)
    assert [("again", "1")] == committed(engine)


def test_a_write_of_several_batches_counts_once_its_last_one_is_there() -> None:
    engine = active()
    engine.write("long", put("1", times=RECORDS_PER_WRITE_MAX + 1, atomic=False), now_ms=0, request_id=ID)
    first, last = engine.ready().appends

    assert [None, mark(ID, CreateTopicsResponse(topics=(CreateTopicsResponse.CreatableTopicResult(name="1"),)))] == [
        request_of(written(append)[0]) for append in (first, last)
    ]


def test_an_answer_that_is_too_long_to_be_kept_is_refused_and_nothing_is_written() -> None:
    engine = active()
    long = put("x" * STRING_MAX, topics=deduplication.MARK_BYTES_MAX // STRING_MAX + 1)
    engine.write("long", long, now_ms=0, request_id=ID)
    ready = engine.ready()

    assert ((), [("long", ErrorCode.POLICY_VIOLATION)]) == (ready.appends, said(ready.answers))


def test_an_id_of_another_kind_of_request_is_refused() -> None:
    engine = active()
    engine.write("first", put("1"), now_ms=0, request_id=ID)
    for moment in ("under way", "committed"):
        engine.write(moment, put("2"), now_ms=0, request_id=RequestId(ID.value, DeleteTopicsResponse))
        answers = dict(committed(engine))

        assert ErrorCode.INVALID_REQUEST == answers[moment]


def test_an_id_of_a_request_that_asked_for_something_else_is_refused() -> None:
    engine = active()
    engine.write("first", put("1"), now_ms=0, request_id=replace(ID, digest=b"put 1"))
    for moment in ("under way", "committed"):
        engine.write(moment, put("2"), now_ms=0, request_id=replace(ID, digest=b"put 2"))
        engine.write(f"{moment} again", put("1"), now_ms=0, request_id=replace(ID, digest=b"put 1"))
        answers = dict(committed(engine))

        assert ErrorCode.INVALID_REQUEST == answers[moment]
        assert "1" == answers[f"{moment} again"]


def test_callers_who_choose_the_same_id_do_not_meet() -> None:
    of = partial(RequestId.of, ID.value, asked=b"a topic", response=CreateTopicsResponse)
    alice, bob = of(caller="User:alice"), of(caller="User:bob")

    assert alice.value != bob.value
    assert alice == of(caller="User:alice")
    assert ID.value not in mark(alice, CreateTopicsResponse())


def test_the_oldest_is_forgotten_first() -> None:
    kept = RequestDeduplication()
    response = CreateTopicsResponse()
    for number in range(DONE_MAX + 1):
        text = mark(RequestId(b"%16d" % number, CreateTopicsResponse), response)
        kept.begin(text, response)
        kept.note(text)

    assert DONE_MAX == len(kept)
    assert kept.answer(RequestId(b"%16d" % 0, CreateTopicsResponse)) is None
    assert response == kept.answer(RequestId(b"%16d" % DONE_MAX, CreateTopicsResponse))


def test_answers_take_no_more_than_so_many_bytes_and_the_last_one_is_kept() -> None:
    """They are of every caller that may write, and on each controller."""
    kept, size = RequestDeduplication(), DONE_BYTES_MAX // 8
    texts = [ANOTHER.value[:-1] + bytes([number]) + b"Kind\0\0\1" + bytes(size) for number in range(9)]
    for text in (*texts, *texts[1:], texts[0]):
        kept.note(text)
    assert 8 == len(kept)

    kept.note(ID.value + b"Kind\0\0\1")  # no more bytes: nothing has to go

    assert 9 == len(kept)


@given(st.binary(max_size=64))
def test_whatever_the_log_holds_is_no_fault(text: bytes) -> None:
    kept = RequestDeduplication()
    kept.note(text)

    assert kept.answer(ANOTHER) is None
