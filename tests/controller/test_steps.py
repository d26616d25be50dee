"""A decision in steps: one state is read to its end, or it is made anew; what comes out is what one step would make."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft import Uuid
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.create_partitions import create_partitions
from quorate.controller.commands.create_topics import create_topics
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, propose, steps_of
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.failures import Fault
from quorate.controller.engine.preparation import Undecided
from quorate.controller.engine.steps import ITEMS_PER_STEP, Steps, finished
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import ConfigRecord, FeatureLevelRecord
from tests.bench.controller_core import standby
from tests.bench.synthetic import REPLICATION_FACTOR, Shape, topic_name
from tests.controller.reverts import control_record, no_room

EPOCH = 3
MANY = 2 * ITEMS_PER_STEP + 1
STEP_COUNT = 3
SETTINGS = ControllerSettings()
SHAPE = Shape(partitions=MANY, partitions_per_topic=1, brokers=6)


def active() -> Engine:
    """It leads, and one config of a topic is committed."""
    engine = Engine(ClusterState())
    engine.replay([FeatureLevelRecord(METADATA_VERSION, 25), _set("0")], base_offset=0, end_offset=2)
    engine.claim(EPOCH, 2)
    return engine


def _set(value: str) -> ConfigRecord:
    return ConfigRecord(TOPIC, "t", "a", value)


def put(value: str) -> Command[str]:
    return lambda _state, _moment: Decision(value, (_set(value),))


def appended(*, pauses: int = 2) -> Command[str]:
    """Appends a letter to the config that it has read in its first step, and says where the record is to lie."""

    @CommandInSteps
    def command(state: ClusterState, moment: Moment) -> Steps[Decision[str]]:
        before = state.configs.get(TOPIC, "t", "a")
        for _ in range(pauses):
            yield
        return Decision(f"{before}x at {moment.next_offset}", (_set(f"{before}x"),))

    return command


def begun(engine: Engine, command: Command[str], token: str = "slow") -> Steps[int]:
    """A write in steps, of which the first is done."""
    asked = Undecided(token=token, command=command, now_ms=0, traceparent=None, request_id=None)
    steps = engine.write_in_steps(asked)
    next(steps)
    return steps


def responses(engine: Engine) -> list[object]:
    """What is answered once all is committed."""
    engine.note_appended(engine.next_offset)
    engine.commit(engine.next_offset)
    return [answer.error.code if answer.error else answer.response for answer in engine.ready().answers]


def test_nothing_changes_before_the_last_step() -> None:
    engine = active()
    steps = begun(engine, appended())
    while_it_runs = engine.next_offset, engine.ready().appends, engine.state.configs.get(TOPIC, "t", "a")
    finished(steps)

    assert (2, (), "0") == while_it_runs
    assert "0x" == engine.state.configs.get(TOPIC, "t", "a")
    assert ["0x at 2"] == responses(engine)


def test_commits_and_reads_go_on_between_two_steps() -> None:
    engine = active()
    engine.write("before", put("1"), now_ms=0)
    steps = begun(engine, appended())
    engine.write("read", lambda state, _: Decision(state.configs.get(TOPIC, "t", "a")), now_ms=0)
    told = responses(engine)
    finished(steps)

    assert ["1", "1"] == told
    assert ["1x at 3"] == responses(engine)


def test_a_write_that_slips_in_is_not_overwritten_by_what_was_decided_before_it() -> None:
    engine = active()
    steps = begun(engine, appended())
    engine.write("other", put("7"), now_ms=0)
    finished(steps)

    assert ["7", "7x at 3"] == responses(engine)


@pytest.mark.parametrize(
    ("befalls", "told"),
    [
        (control_record, ["1", "1x at 4"]),
        (no_room, [ErrorCode.KAFKA_STORAGE_ERROR, "0x at 2"]),
    ],
    ids=["a control record takes the offset", "the quorum has no room"],
)
def test_what_is_reverted_under_a_decision_has_it_made_anew(
    befalls: Callable[[Engine], None], told: list[object]
) -> None:
    engine = active()
    engine.write("before", put("1"), now_ms=0)
    engine.ready()
    steps = begun(engine, appended())
    befalls(engine)
    finished(steps)

    assert told == responses(engine)


def test_acontrol_record_alone_has_it_made_anew_too() -> None:
    """The offset of the first record is part of a decision: it is a broker's epoch."""
    engine = active()
    steps = begun(engine, appended())
    control_record(engine)
    finished(steps)

    assert ["0x at 3"] == responses(engine)


@pytest.mark.parametrize("is_claimed_again", [False, True])
def test_leadership_that_is_lost_ends_it(is_claimed_again: bool) -> None:
    engine = active()
    steps = begun(engine, appended())
    engine.renounce()
    if is_claimed_again:
        engine.claim(EPOCH + 1, engine.next_offset)

    with pytest.raises(ApiError) as raised:
        finished(steps)

    assert ErrorCode.NOT_CONTROLLER is raised.value.code
    assert (2, ()) == (engine.next_offset, engine.ready().appends)


def test_who_gives_up_in_between_has_written_nothing() -> None:
    engine = active()
    steps = begun(engine, appended())
    steps.close()
    engine.write("other", put("7"), now_ms=0)

    assert ["7"] == responses(engine)


def test_a_bug_in_a_later_step_is_a_failed_decision() -> None:
    @CommandInSteps
    def mistaken(_state: ClusterState, _moment: Moment) -> Steps[Decision[str]]:
        yield
        raise KeyError("a bug")

    engine = active()
    steps = begun(engine, mistaken)

    with pytest.raises(Fault, match="deciding"):
        finished(steps)

    assert (2, 1) == (engine.next_offset, engine.metadata_error_count)


def _topics() -> Command[object]:
    topics = tuple(
        CreateTopicsRequest.CreatableTopic(f"new-{number}", num_partitions=1, replication_factor=1)
        for number in range(MANY)
    )
    numbers = iter(range(1, 10 * MANY))
    return create_topics(
        CreateTopicsRequest(topics=topics),
        placements={topic.name: ((0,),) for topic in topics},
        new_topic_id=lambda: Uuid(next(numbers).to_bytes(16, "big")[::-1]),
        settings=SETTINGS,
    )


def _partitions() -> Command[object]:
    grown = CreatePartitionsRequest.CreatePartitionsTopic
    names = [topic_name(number) for number in range(MANY)]
    return create_partitions(
        CreatePartitionsRequest(topics=tuple(grown(name, count=2) for name in names)),
        placements={name: (tuple(range(REPLICATION_FACTOR)),) for name in names},
    )


def _configs() -> Command[object]:
    resource, config = (
        IncrementalAlterConfigsRequest.AlterConfigsResource,
        IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig,
    )
    asked = tuple(
        resource(TOPIC, topic_name(number), (config("retention.ms", 0, str(number)),)) for number in range(MANY)
    )
    return incremental_alter_configs(IncrementalAlterConfigsRequest(resources=asked), settings=SETTINGS)


def _moves() -> Command[object]:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    asked = tuple(
        topic(topic_name(number), (topic.ReassignablePartition(0, ((number) % 6, (number + 1) % 6, (number + 2) % 6)),))
        for number in range(MANY)
    )
    return alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=asked), settings=SETTINGS)


def _elections() -> Command[object]:
    asked = tuple(ElectLeadersRequest.TopicPartitions(topic_name(number), (0,)) for number in range(MANY))
    return elect_leaders(ElectLeadersRequest(topic_partitions=asked), settings=SETTINGS)


@pytest.fixture(scope="module")
def large() -> Engine:
    return standby(SHAPE)


@pytest.mark.parametrize("made", [_topics, _partitions, _configs, _moves, _elections])
def test_a_large_request_is_decided_in_steps_of_few_items(large: Engine, made: Callable[[], Command[object]]) -> None:
    moment = Moment(next_offset=large.next_offset, now_ms=0)
    steps = steps_of(propose(made()), large.state, moment)
    step_count = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            in_steps = end.value.response
            break
        step_count += 1
    at_once = made()(large.state, moment)

    assert step_count >= STEP_COUNT
    assert (at_once.response, at_once.records) == (in_steps.response, in_steps.records)
