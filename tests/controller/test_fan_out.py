"""A broker's change in many chunks: the same as in one, and sound whatever others decide in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraft import Message
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.change_broker_state import change_broker_state, change_in_turns
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.engine.decision import Command
from quorate.controller.partitions.chunked_change import ChunkLimits, chunks, in_isr
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.canonical import canonical
from quorate.records import BrokerRegistrationChangeRecord, RemoveTopicRecord
from tests.controller.clusters import Cluster, directory
from tests.controller.rules import check, check_change, partitions
from tests.controller.stories import SETTINGS, Step, Story, any_step, replayed, steps

SMALL = ChunkLimits(changed_max=2, looked_at_max=5, uncut_max=2)
TARGETS = [ControlState.FENCED, ControlState.CONTROLLED_SHUTDOWN, ControlState.SHUTDOWN_NOW, ControlState.UNFENCED]


def busy(*, elr: bool = False) -> Cluster:
    """Three brokers, and partitions of every kind: led by broker 1 or not, alone or not, several topics."""
    cluster = Cluster(25, elr=elr).brokers(1, 2, 3)
    cluster.topic("led", *[[1, 2, 3]] * 7)
    cluster.topic("followed", *[[2, 1, 3]] * 3, min_insync_replicas="3")
    cluster.topic("elsewhere", *[[2, 3]] * 9)
    cluster.topic("alone", [1], [2], [1])
    return cluster


def arguments(cluster: Cluster, broker_id: int, target: ControlState) -> dict[str, Any]:
    broker = cluster.state.brokers.get(broker_id)
    assert broker is not None, broker_id
    return {"broker_id": broker_id, "broker_epoch": broker.epoch, "target": target, "settings": cluster.settings}


def chunked(
    cluster: Cluster, broker_id: int, target: ControlState, limits: ChunkLimits = SMALL
) -> Iterator[Command[Any]]:
    return change_in_turns(cluster.state, **arguments(cluster, broker_id, target), limits=limits)


def written(cluster: Cluster, commands: Iterator[Command[Any]]) -> list[Sequence[Message]]:
    """The records of each command, which are applied before the next is taken."""
    found: list[Sequence[Message]] = []
    for command in commands:
        records = cluster.decide(command).records
        cluster.apply(records)
        found.append(records)
    return found


def own_record_last(records: Iterable[Message]) -> list[Message]:
    return sorted(records, key=lambda record: isinstance(record, BrokerRegistrationChangeRecord))


def prepared(target: ControlState, *, elr: bool) -> Cluster:
    """A cluster in which broker 1 can be brought to `target`; some partitions have no leader if it is to come."""
    cluster = busy(elr=elr)
    if target is ControlState.UNFENCED:
        for broker_id in (2, 3, 1):
            cluster.change(broker_id, ControlState.FENCED)
    return cluster


@pytest.mark.parametrize("elr", [False, True], ids=["no ELR", "ELR"])
@pytest.mark.parametrize("target", TARGETS)
def test_turns_write_what_one_would(target: ControlState, elr: bool) -> None:
    at_once, by_and_by = prepared(target, elr=elr), prepared(target, elr=elr)
    whole = written(at_once, iter([change_broker_state(**arguments(at_once, 1, target))]))
    pieces = written(by_and_by, chunked(by_and_by, 1, target))

    assert len(pieces) > 4
    # Only that a broker shuts down is said first at once, and last by and by.
    order = own_record_last if target is ControlState.CONTROLLED_SHUTDOWN else list[Message]
    assert order(chain(*whole)) == order(chain(*pieces))
    assert canonical(at_once.state) == canonical(by_and_by.state)


@pytest.mark.parametrize("elr", [False, True], ids=["no ELR", "ELR"])
def test_a_directory_that_is_lost_at_a_broker_that_comes_back_has_no_leader_in_any_turn(elr: bool) -> None:
    """Also not by others in between: each election looks at the directories that the broker has."""
    at_once, by_and_by = prepared(ControlState.UNFENCED, elr=elr), prepared(ControlState.UNFENCED, elr=elr)
    for cluster in (at_once, by_and_by):
        (broker_epoch,) = (broker.epoch for broker in cluster.state.brokers if broker.id == 1)
        cluster.apply([BrokerRegistrationChangeRecord(1, broker_epoch, log_dirs=(directory(1), directory(9)))])
    lost = {"offline_log_dirs": [directory(1)]}
    at_once.write(change_broker_state(**arguments(at_once, 1, ControlState.UNFENCED), **lost))
    commands = change_in_turns(by_and_by.state, **arguments(by_and_by, 1, ControlState.UNFENCED), **lost, limits=SMALL)
    by_and_by.write(next(commands))
    for cluster in (at_once, by_and_by):
        cluster.unfence(2)
    for command in commands:
        by_and_by.write(command)
        assert 0 == by_and_by.state.topics.leader_count(1)

    assert canonical(at_once.state) == canonical(by_and_by.state)


@pytest.mark.parametrize("target", TARGETS)
def test_what_fits_one_turn_is_not_cut_up(target: ControlState) -> None:
    cluster = prepared(target, elr=False)

    assert 1 == len(written(cluster, chunked(cluster, 1, target, ChunkLimits())))


def test_a_turn_is_no_longer_than_it_may_be() -> None:
    cluster = busy()
    sizes = [len(keys) for keys in chunks(cluster.state.topics, in_isr(1), SMALL)]

    assert 12 == sum(sizes)
    assert max(sizes) < 2 * SMALL.changed_max
    assert 0 in sizes, "also the search has an end"


def test_who_comes_back_in_between_is_out_in_the_end() -> None:
    """The broker is not fenced before its own record: so it is taken back where the leader says so."""
    cluster = busy()
    commands = chunked(cluster, 1, ControlState.FENCED)
    cluster.write(next(commands))
    (isr,) = {cluster.partition("led", number).isr for number in range(2)}
    cluster.rejoin("led", 0, 1)
    back = cluster.partition("led", 0).isr
    cluster.topic("new", [1, 2])
    written(cluster, commands)

    assert ((2, 3), (1, 2, 3)) == (isr, back)
    assert (2, 3) == cluster.partition("led", 0).isr
    assert (2,) == cluster.partition("new").isr
    assert 0 == cluster.state.topics.leader_count(1)


def test_the_brokers_own_record_is_the_last_of_its_fencing() -> None:
    cluster = busy()
    pieces = written(cluster, chunked(cluster, 1, ControlState.FENCED))

    assert [(BrokerRegistrationChangeRecord,)] == [
        tuple(map(type, records)) for records in pieces if BrokerRegistrationChangeRecord in map(type, records)
    ]
    assert BrokerRegistrationChangeRecord is type(pieces[-1][-1])


def test_a_topic_that_goes_in_between_is_left_out() -> None:
    cluster = busy()
    commands = chunked(cluster, 1, ControlState.FENCED)
    cluster.write(next(commands))
    command = next(commands)
    led = cluster.state.topics.id_of("led")
    assert led is not None
    cluster.apply([RemoveTopicRecord(led)])
    cluster.write(command)
    written(cluster, commands)

    assert {(2, 3), (1,)} >= {row.isr for _, _, row in cluster.state.topics.all() if 1 in row.replicas}


def test_a_broker_that_is_struck_off_in_between_is_no_more_asked_about() -> None:
    cluster = busy()
    commands = chunked(cluster, 1, ControlState.FENCED)
    cluster.write(next(commands))
    cluster.write(unregister_broker(UnregisterBrokerRequest(broker_id=1), settings=cluster.settings))

    assert [ErrorCode.BROKER_ID_NOT_REGISTERED] == list({cluster.refusal(command).code for command in commands})


def judged(story: Story, write: Callable[[], int]) -> None:
    """One write, and what it has made of each partition."""
    before = partitions(story.state)
    write()
    for key, partition in partitions(story.state).items():
        check(story.state, key, partition)
        check_change(before.get(key, partition), partition)


@given(
    st.builds(lambda level, elr: Story(level, elr=elr).begin(), st.sampled_from([25, 33]), st.booleans()),
    steps(),
    st.integers(1, 3),
    st.sampled_from(TARGETS),
    st.lists(any_step(), max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_partitions_are_what_they_may_be_whatever_others_write_in_between(
    story: Story, before: list[Step], broker_id: int, target: ControlState, others: list[Step]
) -> None:
    """I-46 to I-53 hold after every single write: nobody is fenced and leads, or is in an ISR with others."""
    story.tell(before)
    broker = story.state.brokers.get(broker_id)
    assume(broker is not None)
    assert broker is not None
    commands = change_in_turns(
        story.state, broker_id=broker_id, broker_epoch=broker.epoch, target=target, settings=SETTINGS, limits=SMALL
    )
    for command, other in zip_longest(commands, others):
        if command is not None:
            judged(story, partial(story.write, command))
        if other is not None:
            judged(story, partial(story.take, other))

    assert canonical(story.state) == canonical(replayed(story.batches))
