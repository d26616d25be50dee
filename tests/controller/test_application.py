"""A write that is applied in steps is there as a whole or not at all, whatever happens while it is there in part."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.controller.engine import application
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.failures import Fault, Where
from quorate.controller.engine.preparation import Undecided
from quorate.controller.engine.steps import Steps, finished
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.canonical import canonical
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import ConfigRecord, FeatureLevelRecord, FenceBrokerRecord
from tests.controller.reverts import control_record, no_room

EPOCH = 3
NAMES = "abcde"
WITHOUT_PLACE = FenceBrokerRecord(-1, -1)
"""A record that cannot be applied: no broker has this id."""


@pytest.fixture(autouse=True)
def _two_records_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "RECORDS_PER_STEP", 2)


@pytest.fixture
def engine() -> Engine:
    """It leads, and nothing but the metadata.version is committed: its next record is at offset 1."""
    engine = Engine(ClusterState())
    engine.replay([FeatureLevelRecord(METADATA_VERSION, 25)], base_offset=0, end_offset=1)
    engine.claim(EPOCH, 1)
    return engine


def values(state: ClusterState) -> str:
    return "".join(state.configs.get(TOPIC, "t", name) or "-" for name in NAMES)


def put(value: str, names: str = NAMES) -> Command[str]:
    records = tuple(ConfigRecord(TOPIC, "t", name, value) for name in names)
    return lambda state, moment: Decision(f"{values(state)} at {moment.next_offset}", records)


def reading(state: ClusterState, _: Moment) -> Decision[str]:
    return Decision(values(state))


def undecided(command: Command[str], token: str = "large") -> Undecided:
    return Undecided(token=token, command=command, now_ms=0, traceparent=None, request_id=None)


def in_part(engine: Engine, command: Command[str]) -> Steps[int]:
    """A write of which two records are applied."""
    steps = engine.write_in_steps(undecided(command))
    next(steps)
    return steps


def told(engine: Engine) -> list[object]:
    """What is answered once the quorum has all that was to be appended."""
    ready = engine.ready()
    if ready.appends:
        end_offset = ready.appends[-1].base_offset + len(ready.appends[-1].values)
        engine.note_appended(end_offset)
        engine.commit(end_offset)
    return [
        answer.error.code if answer.error else answer.response for answer in (*ready.answers, *engine.ready().answers)
    ]


def test_a_write_is_appended_once_it_is_there_as_a_whole(engine: Engine) -> None:
    steps = in_part(engine, put("1"))
    seen = values(engine.state), engine.ready().appends
    pause_count = 1 + sum(1 for _ in steps)

    assert ("11---", ()) == seen
    assert 2 == pause_count
    assert "11111" == values(engine.state)
    assert ["----- at 1"] == told(engine)


def test_reads_between_two_steps_see_nothing_of_it(engine: Engine) -> None:
    engine.write("before", put("1"), now_ms=0)
    steps = in_part(engine, put("2"))
    engine.write("read", reading, now_ms=0)
    before, answered = values(engine.state), told(engine)
    finished(steps)
    engine.write("read again", reading, now_ms=0)

    assert "22111" == before
    assert ["----- at 1", "11111"] == answered
    assert ["11111 at 6", "22222"] == told(engine)


def test_a_read_in_steps_that_it_overtakes_is_begun_anew(engine: Engine) -> None:
    seen: list[str] = []

    @CommandInSteps
    def slow(state: ClusterState, _: Moment) -> Steps[Decision[str]]:
        seen.append(values(state))
        yield
        return Decision(values(state))

    steps = in_part(engine, put("1"))
    read = engine.write_in_steps(undecided(slow, "read"))
    next(read)
    finished(steps)
    finished(read)

    assert ["-----", "11111"] == seen
    assert ["----- at 1", "11111"] == told(engine)


def test_a_snapshot_between_two_steps_has_nothing_of_it(engine: Engine) -> None:
    engine.write("before", put("1"), now_ms=0)
    told(engine)
    steps = in_part(engine, put("2"))
    offset = engine.hold_stable()
    finished(steps)

    assert 6 == offset
    assert "11111" == values(engine.state.at(6))


@pytest.mark.parametrize(
    ("befalls", "answered"),
    [
        (control_record, ["----- at 2", "1---- at 3"]),
        (no_room, [ErrorCode.KAFKA_STORAGE_ERROR, "----- at 1"]),
    ],
    ids=["a control record takes the offset", "the quorum has no room"],
)
def test_what_is_reverted_under_it_has_it_made_anew(
    engine: Engine, befalls: Callable[[Engine], None], answered: list[object]
) -> None:
    engine.write("before", put("1", "a"), now_ms=0)
    steps = in_part(engine, put("2"))
    engine.ready()
    befalls(engine)
    finished(steps)

    assert "22222" == values(engine.state)
    assert answered == told(engine)


@pytest.mark.parametrize("is_claimed_again", [False, True])
def test_leadership_that_is_lost_takes_it_back(engine: Engine, is_claimed_again: bool) -> None:
    before = canonical(engine.state)
    steps = in_part(engine, put("1"))
    engine.renounce()
    if is_claimed_again:
        engine.claim(EPOCH + 1, engine.next_offset)

    with pytest.raises(ApiError) as raised:
        finished(steps)

    assert ErrorCode.NOT_CONTROLLER is raised.value.code
    assert (1, ()) == (engine.next_offset, engine.ready().appends)
    assert before == canonical(engine.state)


def test_who_gives_up_in_between_has_written_nothing(engine: Engine) -> None:
    steps = in_part(engine, put("1"))
    steps.close()
    between = values(engine.state)
    engine.write("other", put("7", "a"), now_ms=0)

    assert "-----" == between
    assert ["----- at 1"] == told(engine)
    assert "7----" == values(engine.state)


def test_a_record_that_cannot_be_applied_takes_all_back(engine: Engine) -> None:
    records = (*(ConfigRecord(TOPIC, "t", name, "1") for name in NAMES), WITHOUT_PLACE)
    steps = in_part(engine, lambda _state, _moment: Decision("none", records))

    with pytest.raises(Fault, match=r"FenceBrokerRecord at offset 6 .* batch at 1") as raised:
        finished(steps)

    assert Where.APPLYING is raised.value.where
    assert (1, (), "-----") == (engine.next_offset, engine.ready().appends, values(engine.state))
