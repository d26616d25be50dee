"""Registering in another's place, and unregistering, in many chunks: as in one, with others in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraft import Message
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.register_broker import register_ahead, register_unless_alive
from quorate.controller.commands.unregister_broker import unregister_ahead, unregister_broker
from quorate.controller.engine.decision import Command
from quorate.controller.partitions.chunked_change import ChunkLimits
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.canonical import canonical
from quorate.metadata.partitions import NO_LEADER
from quorate.records import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from tests.controller.clusters import CLUSTER_ID, Cluster, registration, uuid
from tests.controller.stories import SETTINGS, Step, Story, any_step, replayed, steps
from tests.controller.test_fan_out import SMALL, judged, written

NEVER_STOPPED_IN_ORDER = -1


def eligible(*, of_how_many: int = 9) -> Cluster:
    """Broker 1 is fenced, and in the ELR of as many partitions, in several topics."""
    cluster = Cluster(25, elr=True).brokers(1, 2, 3)
    cluster.topic("first", *[[1, 2, 3]] * (of_how_many - 2), min_insync_replicas="3")
    cluster.topic("elsewhere", *[[2, 3]] * 9)
    cluster.topic("last", [2, 1], [3, 1], min_insync_replicas="2")
    cluster.change(1, ControlState.FENCED)
    assert of_how_many == cluster.state.topics.elr_count(1)
    return cluster


def epoch(cluster: Cluster, broker_id: int = 1) -> int:
    broker = cluster.state.brokers.get(broker_id)
    assert broker is not None, broker_id
    return broker.epoch


def unclean(*, incarnation: int = 1, **changes: Any) -> BrokerRegistrationRequest:
    """Another process of broker 1, whose last one went without a word."""
    return registration(1, incarnation=incarnation, **{"previous_broker_epoch": NEVER_STOPPED_IN_ORDER, **changes})


def registering(
    cluster: Cluster, request: BrokerRegistrationRequest, limits: ChunkLimits = SMALL, kraft_version: int = 1
) -> Iterator[Command[Any]]:
    given: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "kraft_version": kraft_version,
        "settings": cluster.settings,
    }
    yield from register_ahead(cluster.state, request, **given, limits=limits)
    yield register_unless_alive(request, **given)


def striking_off(cluster: Cluster, broker_id: int = 1, limits: ChunkLimits = SMALL) -> Iterator[Command[Any]]:
    request = UnregisterBrokerRequest(broker_id=broker_id)
    yield from unregister_ahead(cluster.state, request, settings=cluster.settings, limits=limits)
    yield unregister_broker(request, settings=cluster.settings)


def changed(records: Sequence[Message]) -> list[tuple[Any, int]]:
    return [(each.topic_id, each.partition_id) for each in records if isinstance(each, PartitionChangeRecord)]


# BrokerRegistration.


def test_turns_of_a_registration_write_what_one_would() -> None:
    """KIP-966: who did not stop in order is eligible for nothing."""
    at_once, by_and_by = eligible(), eligible()
    whole = written(at_once, registering(at_once, unclean(), ChunkLimits()))
    offset = by_and_by.next_offset
    pieces = written(by_and_by, registering(by_and_by, unclean()))

    assert (1, True) == (len(whole), len(pieces) > 4)
    assert changed(whole[0]) == changed(list(chain(*pieces)))
    assert 9 == len(changed(whole[0]))
    assert [RegisterBrokerRecord] == [type(record) for record in pieces[-1]]
    # The epoch is an offset, and in many chunks a later one; else the states are equal (KIP-631).
    assert (offset, offset + 9) == (epoch(at_once), epoch(by_and_by))
    assert 0 == by_and_by.state.topics.elr_count(1)


def test_who_stopped_in_order_stays_eligible() -> None:
    cluster = eligible()
    (records,) = written(cluster, registering(cluster, unclean(previous_broker_epoch=epoch(cluster))))

    assert [RegisterBrokerRecord] == [type(record) for record in records]
    assert 9 == cluster.state.topics.elr_count(1)


REFUSED = {
    "another cluster": (unclean(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
    "a directory of broker 2": (unclean(log_dirs=(uuid(250),)), ErrorCode.INVALID_REGISTRATION),
    "no listener": (unclean(listeners=()), ErrorCode.INVALID_REGISTRATION),
    "no feature": (unclean(features=()), ErrorCode.INVALID_REGISTRATION),
}


@pytest.mark.parametrize(("request_", "code"), REFUSED.values(), ids=REFUSED)
def test_a_registration_that_is_refused_writes_nothing(request_: BrokerRegistrationRequest, code: ErrorCode) -> None:
    cluster = eligible()
    (command,) = registering(cluster, request_)

    assert code == cluster.refusal(command).code


def test_who_is_alive_keeps_its_place() -> None:
    cluster = Cluster(25, elr=True).brokers(1, 2)
    cluster.topic("topic", *[[1, 2]] * 9)
    (command,) = registering(cluster, unclean())

    assert ErrorCode.DUPLICATE_BROKER_REGISTRATION == cluster.refusal(command).code


def test_a_process_that_registers_again_has_nothing_to_clear() -> None:
    cluster = eligible()
    (records,) = written(cluster, registering(cluster, unclean(incarnation=0)))

    assert [RegisterBrokerRecord] == [type(record) for record in records]
    assert 9 == cluster.state.topics.elr_count(1)


def test_a_retry_while_turns_are_under_way_is_answered_alike() -> None:
    cluster = eligible()
    first, second = registering(cluster, unclean()), registering(cluster, unclean())
    pieces = []
    for one, other in zip_longest(first, second):
        for command in (one, other):
            if command is not None:
                decision = cluster.decide(command)
                cluster.apply(decision.records)
                pieces.append(decision)
    answers = [each.response.broker_epoch for each in pieces if each.response is not None]

    assert [epoch(cluster)] * 2 == answers
    assert 9 == len(set(changed(list(chain(*(each.records for each in pieces))))))
    assert 9 == len(changed(list(chain(*(each.records for each in pieces)))))


def test_a_retry_that_comes_to_its_end_first_leaves_nothing_to_the_other() -> None:
    cluster = eligible()
    slow = registering(cluster, unclean())
    cluster.write(next(slow))
    late = next(slow)
    written(cluster, registering(cluster, unclean()))
    registered = epoch(cluster)
    pieces = [cluster.decide(late).records, *written(cluster, slow)]

    assert [0, 1] == [len(records) for records in pieces]
    assert registered == epoch(cluster)


def test_the_later_of_two_twins_takes_the_place_of_the_earlier() -> None:
    cluster = eligible()
    slow = registering(cluster, unclean(incarnation=2))
    cluster.write(next(slow))
    written(cluster, registering(cluster, unclean(incarnation=1)))
    written(cluster, slow)
    broker = cluster.state.brokers.get(1)

    assert broker is not None
    assert unclean(incarnation=2).incarnation_id == broker.incarnation_id


def test_no_bite_does_harm_to_another_process() -> None:
    """The twin has registered, stopped in order, and is eligible again: what the first has found is of no account."""
    cluster = eligible()
    slow = registering(cluster, unclean(incarnation=2))
    cluster.write(next(slow))
    late = next(slow)
    written(cluster, registering(cluster, unclean(incarnation=1)))
    cluster.unfence(1)
    for number in range(7):
        cluster.alter_isr("first", (1, 2, 3), number)
    cluster.change(1, ControlState.FENCED)
    before = cluster.state.topics.elr_count(1)
    cluster.write(late)

    assert (7, 7) == (before, cluster.state.topics.elr_count(1))
    assert 1 == len(list(slow)), "the search is over: what is left is the whole"


def test_the_last_process_that_comes_back_in_between_keeps_its_place() -> None:
    """It was fenced for being late, and is let in again: then the new one is its twin."""
    cluster = eligible()
    commands = registering(cluster, unclean())
    cluster.write(next(commands))
    cluster.unfence(1)

    assert {ErrorCode.DUPLICATE_BROKER_REGISTRATION} == {cluster.refusal(command).code for command in commands}


def test_a_level_that_is_raised_in_between_keeps_out_who_does_not_support_it() -> None:
    feature = BrokerRegistrationRequest.Feature
    old = (feature("eligible.leader.replicas.version", 0, 1), feature("kraft.version", 0, 1))
    cluster = eligible()
    commands = registering(cluster, unclean(features=(*old, feature("metadata.version", 7, 25))))
    cluster.write(next(commands))
    cluster.apply([FeatureLevelRecord("metadata.version", 26)])

    assert {ErrorCode.UNSUPPORTED_VERSION} == {cluster.refusal(command).code for command in commands}


def test_a_broker_that_is_struck_off_in_between_registers_all_the_same() -> None:
    cluster = eligible()
    commands = registering(cluster, unclean())
    cluster.write(next(commands))
    written(cluster, striking_off(cluster))
    (records,) = written(cluster, commands)

    assert RegisterBrokerRecord is type(records[-1])
    assert 0 == cluster.state.topics.elr_count(1)


def test_who_was_struck_off_is_eligible_no_more_when_it_registers_anew() -> None:
    """Nobody knows the epoch that it stopped in."""
    cluster = eligible()
    last = epoch(cluster)
    written(cluster, striking_off(cluster))
    left = cluster.state.topics.elr_count(1)
    pieces = written(cluster, registering(cluster, unclean(previous_broker_epoch=last)))

    assert (9, 0) == (left, cluster.state.topics.elr_count(1))
    assert len(pieces) > 4
    assert [RegisterBrokerRecord] == [type(record) for record in pieces[-1]]


# UnregisterBroker.


def led(*, elr: bool) -> Cluster:
    """Broker 1 is there, and leads; two partitions, and not the last that are found, have nobody else."""
    cluster = Cluster(25, elr=elr).brokers(1, 2, 3)
    cluster.topic("alone", [1], [2], [1])
    cluster.topic("led", *[[1, 2, 3]] * 7)
    cluster.topic("followed", *[[2, 1, 3]] * 3, min_insync_replicas="3")
    return cluster


@pytest.mark.parametrize("elr", [False, True], ids=["no ELR", "ELR"])
def test_turns_of_striking_off_write_what_one_would(elr: bool) -> None:
    at_once, by_and_by = led(elr=elr), led(elr=elr)
    (whole,) = written(at_once, striking_off(at_once, limits=ChunkLimits()))
    pieces = written(by_and_by, striking_off(by_and_by))

    assert len(pieces) > 4
    assert sorted(map(repr, whole)) == sorted(map(repr, chain(*pieces)))
    assert canonical(at_once.state) == canonical(by_and_by.state)
    assert UnregisterBrokerRecord is type(pieces[-1][-1])


@pytest.mark.parametrize("elr", [False, True], ids=["no ELR", "ELR"])
def test_nobody_is_without_a_leader_before_the_end(elr: bool) -> None:
    """Leadership may be lost in between, and then the broker stays: it would lead nothing that only it can lead."""
    cluster = led(elr=elr)
    commands = list(striking_off(cluster))
    for command in commands[:-1]:
        cluster.write(command)
    before = {topic.name for topic, _, row in cluster.state.topics.all() if 1 in row.isr}
    without = cluster.state.topics.leader_count(NO_LEADER)
    cluster.write(commands[-1])

    assert ({"alone"}, 0) == (before, without)
    assert 2 == cluster.state.topics.leader_count(NO_LEADER)
    assert cluster.state.brokers.get(1) is None


def test_who_is_let_in_again_in_between_is_struck_off_in_the_end() -> None:
    cluster = led(elr=False)
    commands = striking_off(cluster)
    cluster.write(next(commands))
    cluster.write(next(commands))
    cluster.rejoin("led", 0, 1)
    back = cluster.partition("led", 0).isr
    written(cluster, commands)

    assert (1, 2, 3) == back
    assert (2, 3) == cluster.partition("led", 0).isr
    assert 1 not in cluster.state.brokers


def test_another_process_is_not_bitten_but_struck_off() -> None:
    """The request names no process: it is as if it were asked for at its last chunk."""
    cluster = led(elr=False)
    commands = striking_off(cluster)
    cluster.write(next(commands))
    late = next(commands)
    cluster.change(1, ControlState.FENCED)
    written(cluster, registering(cluster, unclean()))
    cluster.unfence(1)
    for number in range(7):
        cluster.rejoin("led", number, 1)
    cluster.write(late)
    unbitten = [cluster.partition("led", number).isr for number in range(7)]
    pieces = written(cluster, commands)

    assert [(1, 2, 3)] * 7 == unbitten
    assert 1 == len(pieces)
    assert 1 not in cluster.state.brokers


def test_who_is_not_there_is_not_looked_for() -> None:
    cluster = led(elr=False)
    (command,) = striking_off(cluster, 9)

    assert ErrorCode.BROKER_ID_NOT_REGISTERED == cluster.refusal(command).code


# With any requests of others in between.


@given(
    st.builds(lambda level, elr: Story(level, elr=elr).begin(), st.sampled_from([25, 33]), st.booleans()),
    steps(),
    st.integers(1, 3),
    st.booleans(),
    st.lists(any_step(), max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_partitions_are_what_they_may_be_whatever_others_write_in_between(
    story: Story, before: list[Step], broker_id: int, registers: bool, others: list[Step]
) -> None:
    """I-46 to I-53 hold after every single write, I-57 at its end, and the log replays."""
    story.tell(before)
    broker = story.state.brokers.get(broker_id)
    assume(broker is not None)
    if registers:
        request = registration(broker_id, incarnation=7, previous_broker_epoch=NEVER_STOPPED_IN_ORDER)
        alike: dict[str, Any] = {"cluster_id": CLUSTER_ID, "kraft_version": 1, "settings": SETTINGS}
        ahead = register_ahead(story.state, request, **alike, limits=SMALL)
        whole: Command[Any] = register_unless_alive(request, **alike)
    else:
        asked = UnregisterBrokerRequest(broker_id=broker_id)
        ahead = unregister_ahead(story.state, asked, settings=SETTINGS, limits=SMALL)
        whole = unregister_broker(asked, settings=SETTINGS)
    for command, other in zip_longest(ahead, others):
        if command is not None:
            judged(story, partial(story.write, command))
        if other is not None:
            judged(story, partial(story.take, other))
    judged(story, partial(story.write, whole))
    now = story.state.brokers.get(broker_id)

    if not registers:
        assert now is None
    elif now is not None and now.incarnation_id == uuid(broker_id * 100 + 7):
        assert 0 == story.state.topics.elr_count(broker_id)
        assert 0 == story.state.topics.leader_count(broker_id)
    assert canonical(story.state) == canonical(replayed(story.batches))
