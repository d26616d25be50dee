"""claim → write → commit → answer, and back to the last commit: the engine against a log of a few lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kraft import Message
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Answer, Engine, QueueLimit
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.canonical import canonical
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import BeginTransactionRecord, ConfigRecord, FeatureLevelRecord, decode_record, trace_of

EPOCH = 3


def put(name: str, value: str) -> Command[str]:
    """Write one config; the response says where it lay."""

    def command(_: ClusterState, moment: Moment) -> Decision[str]:
        return Decision(f"{name}={value} at {moment.next_offset}", (ConfigRecord(TOPIC, "t", name, value),))

    return command


def put_all(count: int) -> Command[None]:
    """Write one config over and over."""
    return lambda _state, _moment: Decision(None, (ConfigRecord(TOPIC, "t", "a", "1"),) * count)


def get(name: str) -> Command[str | None]:
    """Read one config."""
    return lambda state, _: Decision(state.configs.get(TOPIC, "t", name))


def refuse(_: ClusterState, __: Moment) -> Decision[None]:
    raise ApiError(ErrorCode.INVALID_REQUEST, "no")


@dataclass
class Quorum:
    """A log that takes what the engine hands on, and commits on command."""

    engine: Engine = field(default_factory=lambda: Engine(ClusterState()))
    records: list[Message] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def begin(self) -> Quorum:
        """A log of two records, committed; the engine becomes active."""
        self.records = [FeatureLevelRecord(METADATA_VERSION, 25), ConfigRecord(TOPIC, "t", "a", "0")]
        self.engine.replay(self.records, base_offset=0, end_offset=2)
        self.engine.claim(EPOCH, 2)
        return self

    def write(self, token: str, command: Command[Any], **changes: Any) -> None:
        self.engine.write(token, command, now_ms=0, **changes)

    def append(self) -> None:
        """Take all that is ready."""
        ready = self.engine.ready()
        self.answers += ready.answers
        for append in ready.appends:
            assert (append.epoch, append.base_offset) == (EPOCH, len(self.records))
            self.records += [decode_record(value) for value in append.values]
            self.engine.note_appended(len(self.records))

    def commit(self, offset: int) -> None:
        self.engine.commit(offset)
        self.answers += self.engine.ready().answers

    def told(self) -> list[tuple[str, Any]]:
        """Tokens and responses, or error codes, in the order in which they were given."""
        return [(answer.token, answer.error.code if answer.error else answer.response) for answer in self.answers]


def test_writes_are_pipelined_and_answered_at_their_commit() -> None:
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.write("two", put("b", "2"))
    quorum.append()

    assert quorum.told() == []
    quorum.commit(3)
    assert quorum.told() == [("one", "a=1 at 2")]
    quorum.commit(4)
    assert quorum.told() == [("one", "a=1 at 2"), ("two", "b=2 at 3")]
    assert quorum.records[2:] == [ConfigRecord(TOPIC, "t", "a", "1"), ConfigRecord(TOPIC, "t", "b", "2")]


def test_an_answer_says_of_which_state_it_speaks() -> None:
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.append()
    quorum.commit(3)

    assert [(answer.epoch, answer.offset) for answer in quorum.answers] == [(EPOCH, 3)]


def test_a_read_sees_what_is_pending_and_waits_for_its_commit() -> None:
    """Kafka's rule: who reads after a write must not see it undone."""
    quorum = Quorum().begin()
    quorum.write("old", get("a"))
    quorum.write("one", put("a", "1"))
    quorum.write("new", get("a"))
    quorum.append()

    assert quorum.told() == [("old", "0")]
    quorum.commit(3)
    assert quorum.told() == [("old", "0"), ("one", "a=1 at 2"), ("new", "1")]


def test_a_refusal_waits_too_and_writes_nothing() -> None:
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.write("bad", refuse)
    quorum.append()

    assert quorum.told() == []
    quorum.commit(3)
    assert quorum.told() == [("one", "a=1 at 2"), ("bad", ErrorCode.INVALID_REQUEST)]
    assert len(quorum.records) == 3


def test_the_trace_rides_on_the_first_record() -> None:
    quorum = Quorum().begin()
    quorum.write("two", put_all(2), traceparent=b"00-trace")
    quorum.append()

    assert [trace_of(record) for record in quorum.records[2:]] == [b"00-trace", None]


def test_losing_leadership_goes_back_to_the_last_commit() -> None:
    """I-38."""
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.append()
    quorum.commit(3)
    committed = canonical(quorum.engine.state)
    quorum.write("two", put("a", "2"))
    quorum.append()
    quorum.write("three", put("b", "3"))
    quorum.write("read", get("b"))
    quorum.engine.renounce()
    quorum.append()

    assert canonical(quorum.engine.state) == committed
    assert quorum.told()[1:] == [(token, ErrorCode.NOT_CONTROLLER) for token in ("two", "three", "read")]
    assert (quorum.engine.epoch, quorum.engine.next_offset) == (None, 3)


def test_after_losing_leadership_it_replays_what_the_next_leader_wrote() -> None:
    quorum = Quorum().begin()
    quorum.write("lost", put("a", "1"))
    quorum.append()
    quorum.engine.renounce()
    quorum.engine.replay([ConfigRecord(TOPIC, "t", "a", "9")], base_offset=3, end_offset=4)

    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "9"


def test_a_standby_takes_no_requests() -> None:
    with pytest.raises(ApiError) as refused:
        Engine(ClusterState()).write("one", put("a", "1"), now_ms=0)

    assert refused.value.code == ErrorCode.NOT_CONTROLLER


def test_a_control_record_in_between_has_the_rest_decided_again() -> None:
    quorum = Quorum().begin()
    quorum.write("taken", put("a", "1"))
    quorum.append()
    quorum.write("again", put("b", "2"))
    quorum.write("seen", get("b"))
    quorum.engine.ready()  # what was handed on comes back: offset 3 went to a voter change
    quorum.records.append(FeatureLevelRecord("stands for a control record", 0))
    quorum.engine.decide_again(4)
    quorum.append()
    quorum.commit(5)

    assert quorum.told() == [("taken", "a=1 at 2"), ("again", "b=2 at 4"), ("seen", "2")]
    assert quorum.engine.state.configs.get(TOPIC, "t", "b") == "2"


def test_decided_again_it_can_still_go_back() -> None:
    quorum = Quorum().begin()
    before = canonical(quorum.engine.state)
    quorum.write("again", put("a", "1"))
    quorum.engine.ready()
    quorum.engine.decide_again(3)
    quorum.engine.renounce()

    assert canonical(quorum.engine.state) == before


def test_too_many_waiting_are_refused_with_an_error_to_try_again() -> None:
    quorum = Quorum().begin()
    for number in range(QueueLimit.ADMIN.value):
        quorum.write(f"{number}", put("a", "1"))
    with pytest.raises(ApiError) as refused:
        quorum.write("one more", put("a", "1"))

    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


def test_brokers_and_chores_have_room_when_admins_have_none() -> None:
    quorum = Quorum().begin()
    for number in range(QueueLimit.ADMIN.value):
        quorum.write(f"{number}", put("a", "1"))
    for number in range(QueueLimit.ADMIN.value, QueueLimit.CLUSTER.value):
        quorum.write(f"{number}", put("a", "1"), lane=QueueLimit.CLUSTER)

    for lane in QueueLimit:
        with pytest.raises(ApiError, match=f"{lane.value} requests wait already, the limit"):
            quorum.write("one more", put("a", "1"), lane=lane)


def test_a_write_that_is_too_large_is_refused_whole() -> None:
    quorum = Quorum().begin()
    quorum.write("many", put_all(10_001))
    quorum.append()

    assert quorum.told() == [("many", ErrorCode.POLICY_VIOLATION)]
    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "0"


def test_a_commit_may_be_heard_of_before_the_append() -> None:
    """They come on two streams. It counts once the quorum has said that it took the batch, and stays then."""
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.engine.ready()
    quorum.records.append(ConfigRecord(TOPIC, "t", "a", "1"))
    quorum.commit(3)

    assert quorum.told() == []

    quorum.engine.note_appended(3)
    quorum.answers += quorum.engine.ready().answers

    assert quorum.told() == [("one", "a=1 at 2")]

    quorum.write("two", put("b", "2"))
    quorum.engine.ready()
    quorum.engine.decide_again(4)

    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "1"


def test_the_quorum_may_commit_more_than_was_written_here() -> None:
    """A voter change is appended by the quorum alone; the engine hears of its commit while idle."""
    quorum = Quorum().begin()
    quorum.engine.commit(3)

    assert quorum.engine.committed == 2

    quorum.write("one", put("a", "1"))
    quorum.engine.ready()
    quorum.engine.decide_again(3)
    quorum.engine.note_appended(4)

    assert quorum.told() == []

    quorum.engine.commit(4)
    quorum.answers += quorum.engine.ready().answers

    assert quorum.told() == [("one", "a=1 at 3")]


def test_an_abort_that_is_not_committed_can_be_gone_back_from() -> None:
    """The transaction was open when this controller became active, and is open when it no longer is. KIP-868.

    The timeline cannot take an abort back, so the engine asks for the log from its beginning.
    """
    quorum = Quorum()
    records = [
        FeatureLevelRecord(METADATA_VERSION, 25),
        BeginTransactionRecord("tx"),
        ConfigRecord(TOPIC, "t", "a", "1"),
    ]
    quorum.engine.replay(records, base_offset=0, end_offset=3)
    before = canonical(quorum.engine.state)
    quorum.engine.claim(EPOCH, 3)
    quorum.write("activate", activate((), ControllerSettings()))
    quorum.engine.renounce()

    assert quorum.engine.next_offset == 0

    quorum.engine.replay(records, base_offset=0, end_offset=3)

    assert canonical(quorum.engine.state) == before


def test_what_the_quorum_has_no_room_for_never_was_and_the_controller_stays_active() -> None:
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.append()
    quorum.write("two", put("a", "2"))
    quorum.write("read", get("a"))
    assert len(quorum.engine.ready().appends) == 1

    assert quorum.engine.refuse_unappended(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
    quorum.write("three", put("b", "3"))
    quorum.append()
    quorum.commit(4)

    refused = [("two", ErrorCode.KAFKA_STORAGE_ERROR), ("read", ErrorCode.KAFKA_STORAGE_ERROR)]
    assert quorum.told() == [*refused, ("one", "a=1 at 2"), ("three", "b=3 at 3")]
    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "1"


def test_the_last_commit_is_held_for_a_checkpoint_while_writes_go_on() -> None:
    quorum = Quorum().begin()
    quorum.write("one", put("a", "1"))
    quorum.append()

    offset = quorum.engine.hold_stable()
    assert offset == 2
    for number, value in enumerate("23456"):
        quorum.write(value, put("a", value))
        quorum.append()
        quorum.commit(3 + number)

    assert quorum.engine.state.at(2).configs.get(TOPIC, "t", "a") == "0"
    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "6"
    quorum.engine.state.registry.release(2)
    quorum.commit(8)
    assert 2 not in quorum.engine.state.registry


def test_nothing_is_held_at_the_beginning_or_within_a_transaction() -> None:
    engine = Engine(ClusterState())
    assert engine.hold_stable() is None

    engine.replay([FeatureLevelRecord(METADATA_VERSION, 25), BeginTransactionRecord()], base_offset=0, end_offset=2)

    assert engine.hold_stable() is None
    assert not engine.state.registry.is_held(2)


# What the quorum's own control records have to do with it; found by tests/sim_controller.


def test_a_control_record_that_is_not_committed_is_not_stood_upon() -> None:
    """It may give way to another's record, at the same offset: what stands behind it would never see that."""
    quorum = Quorum()
    quorum.engine.replay([FeatureLevelRecord(METADATA_VERSION, 25)], base_offset=0, end_offset=1)
    quorum.engine.claim(EPOCH, 2)  # at offset 1 is a voters record
    quorum.engine.renounce()
    assert quorum.engine.next_offset == 1

    quorum.engine.replay([ConfigRecord(TOPIC, "t", "a", "theirs")], base_offset=1, end_offset=2)
    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "theirs"


def test_nor_is_one_that_came_in_between() -> None:
    quorum = Quorum().begin()
    quorum.write("mine", put("a", "1"))
    quorum.engine.ready()
    quorum.engine.decide_again(3)
    quorum.engine.renounce()

    assert quorum.engine.next_offset == 2
    assert quorum.engine.state.configs.get(TOPIC, "t", "a") == "0"


def test_a_read_waits_for_the_control_record_before_it() -> None:
    quorum = Quorum()
    quorum.engine.replay([ConfigRecord(TOPIC, "t", "a", "0")], base_offset=0, end_offset=1)
    quorum.engine.claim(EPOCH, 2)
    quorum.write("read", get("a"))
    quorum.append()
    assert quorum.told() == []

    quorum.commit(2)
    assert quorum.told() == [("read", "0")]


def test_a_checkpoint_holds_no_abort_that_is_not_committed() -> None:
    """The Abort has gone back over the state before it: that state is to be had again only by its commit."""
    quorum = _left_open()
    assert quorum.engine.hold_stable() is None

    quorum.append()
    quorum.commit(5)
    assert quorum.engine.hold_stable() == 5


def test_an_abort_cannot_be_decided_again() -> None:
    """A control record came in between, and the state before the Abort is gone: this controller cannot go on."""
    quorum = _left_open()
    quorum.engine.ready()

    assert not quorum.engine.decide_again(5)
    quorum.engine.renounce()
    assert quorum.engine.next_offset == 0
    assert [answer.error.code for answer in quorum.engine.ready().answers if answer.error] == [ErrorCode.NOT_CONTROLLER]


def _left_open() -> Quorum:
    """Active where another has left a transaction open: the Abort is decided, and not yet sent."""
    quorum = Quorum()
    quorum.records = [
        FeatureLevelRecord(METADATA_VERSION, 25),
        ConfigRecord(TOPIC, "t", "a", "0"),
        BeginTransactionRecord("half"),
        ConfigRecord(TOPIC, "t", "a", "half"),
    ]
    quorum.engine.replay(quorum.records, base_offset=0, end_offset=4)
    quorum.engine.claim(EPOCH, 4)
    quorum.write("activate", activate((), ControllerSettings()))
    return quorum
