"""A failure of the controller's own never leaves half a batch behind, and what follows is what one table says."""

from __future__ import annotations

from pathlib import Path

import pytest

import quorate.controller.engine
from kraft import Message
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision
from quorate.controller.engine.encoding import BYTES_PER_WRITE_MAX
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.failures import TABLE, Consequence, Fault, Where
from quorate.controller.periodic import CHORES, PeriodicTask
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.canonical import canonical
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
)
from quorate.wire.schema import STRING_MAX

GOOD = ConfigRecord(TOPIC, "t", "a", "1")
WITHOUT_PLACE = FenceBrokerRecord(7, 7)
"""There is no broker 7."""
WITHOUT_BYTES = FeatureLevelRecord("planted", 1 << 40)
"""A level is an int16."""


def active(*more: Message) -> Engine:
    """It leads epoch 3, behind a log of a metadata.version and these."""
    engine = Engine(ClusterState())
    records = [FeatureLevelRecord(METADATA_VERSION, 25), *more]
    engine.replay(records, base_offset=0, end_offset=len(records))
    engine.claim(3, len(records))
    return engine


def put(*records: Message, atomic: bool = True) -> Command[str]:
    return lambda _state, _moment: Decision("done", records, atomic)


def mistake(*_: object) -> Decision[None]:
    raise ZeroDivisionError("a mistake")


FAILING = [
    (mistake, Where.DECIDING, Consequence.RENOUNCE),
    (put(GOOD, WITHOUT_BYTES), Where.ENCODING, Consequence.RENOUNCE),
    (put(GOOD, WITHOUT_PLACE), Where.APPLYING, Consequence.FATAL),
]


@pytest.mark.parametrize(("command", "where", "consequence"), FAILING)
def test_nothing_is_left_of_a_write_that_failed(
    command: Command[object], where: Where, consequence: Consequence
) -> None:
    engine = active()
    engine.write("before", put(GOOD), now_ms=0)
    before = canonical(engine.state)

    with pytest.raises(Fault) as raised:
        engine.write("failing", command, now_ms=0)

    assert (where, consequence) == (raised.value.where, raised.value.consequence)
    assert before == canonical(engine.state)
    assert (2, 1) == (engine.next_offset, engine.metadata_error_count)

    engine.renounce()

    ready = engine.ready()
    assert () == ready.appends
    assert [("before", ErrorCode.NOT_CONTROLLER)] == [
        (answer.token, answer.error and answer.error.code) for answer in ready.answers
    ]
    assert canonical(active().state) == canonical(engine.state)


def test_of_a_write_of_several_batches_nothing_stays() -> None:
    engine = active()
    before = canonical(engine.state)
    with pytest.raises(Fault):
        engine.write("failing", put(*[GOOD] * 10_000, GOOD, WITHOUT_PLACE, atomic=False), now_ms=0)

    assert 1 == engine.next_offset
    assert () == engine.ready().appends
    assert before == canonical(engine.state)


def test_what_has_gone_back_by_an_abort_is_replayed_anew() -> None:
    engine = active(BeginTransactionRecord("half"), GOOD)
    with pytest.raises(Fault):
        engine.write("failing", put(AbortTransactionRecord(None), WITHOUT_PLACE), now_ms=0)

    engine.renounce()

    assert 0 == engine.next_offset
    assert canonical(ClusterState()) == canonical(engine.state)


def test_who_waits_to_be_decided_for_again_is_answered_when_that_fails() -> None:
    """A control record came in between, and the second of three fails at its new offset."""
    engine = active()
    engine.write("first", put(GOOD), now_ms=0)
    engine.write(
        "second", lambda state, moment: mistake() if moment.next_offset > 3 else Decision(1, (GOOD,)), now_ms=0
    )
    engine.write("third", put(GOOD), now_ms=0)

    with pytest.raises(Fault):
        engine.decide_again(3)
    engine.renounce()

    answers = engine.ready().answers
    assert ["first", "second", "third"] == [answer.token for answer in answers]
    assert {ErrorCode.NOT_CONTROLLER} == {answer.error.code for answer in answers if answer.error}


def test_what_is_larger_than_a_batch_is_refused_and_nothing_else() -> None:
    """Kafka's RecordBatchTooLargeException is an answer to the caller. The quorum would not take it either."""
    engine = active()
    large = [ConfigRecord(TOPIC, "t", "a", "x" * STRING_MAX)] * (BYTES_PER_WRITE_MAX // STRING_MAX + 1)

    engine.write("large", put(*large), now_ms=0)

    error = engine.ready().answers[0].error
    assert error is not None
    assert ErrorCode.RECORD_LIST_TOO_LARGE is error.code
    assert "8388608" in error.message
    assert (1, 0, 3) == (engine.next_offset, engine.metadata_error_count, engine.epoch)


@pytest.mark.parametrize("chore", CHORES, ids=lambda chore: chore.name)
def test_a_chore_that_fails_costs_its_turn_and_counts(chore: PeriodicTask) -> None:
    engine = active()
    broken = PeriodicTask(
        name=chore.name,
        setting=chore.setting,
        interval_ms=chore.interval_ms,
        is_due=chore.is_due,
        command=lambda _: mistake,  # type: ignore[arg-type, return-value]  # it answers nothing
        written_max=chore.written_max,
    )

    engine.write("chore", broken.decide(ControllerSettings()), now_ms=0)
    engine.write("other", put(), now_ms=0)

    errors = [answer.error and answer.error.code for answer in engine.ready().answers]
    assert [ErrorCode.UNKNOWN_SERVER_ERROR, None] == errors
    assert (3, 1) == (engine.epoch, engine.metadata_error_count)


def test_a_refusal_is_no_failure() -> None:
    def refuse(*_: object) -> Decision[None]:
        raise ApiError(ErrorCode.INVALID_REQUEST, "no")

    engine = active()
    engine.write("refused", refuse, now_ms=0)

    assert [ErrorCode.INVALID_REQUEST] == [answer.error and answer.error.code for answer in engine.ready().answers]
    assert (3, 0) == (engine.epoch, engine.metadata_error_count)


def test_the_readme_has_the_table() -> None:
    readme = (Path(quorate.controller.engine.__file__).parent / "README.md").read_text()
    rows = []
    for row in TABLE:
        kinds = ", ".join(kind.__name__ if isinstance(kind, type) else kind.name for kind in row.kinds)
        counts = "yes" if row.counts else "no"
        rows.append(f"| {row.where.value} | {kinds} | {row.consequence.name} | {counts} |")

    assert "\n".join(rows) in readme
