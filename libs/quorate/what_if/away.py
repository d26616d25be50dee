"""Brokers or log directories are away: what becomes of each partition.

Each becomes what the controller makes of it: leader, ISR, ELR, and an unclean election if the topic allows one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraft import Message, Uuid
from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.controller.commands.change_broker_state import change_broker_state, change_in_turns
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import DIRECTORIES, release_of
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.sql.difference import Difference
from quorate.sql.nouns import Image
from quorate.sql.touched import Touched

__all__ = ["Counts", "Outcome", "brokers_of_rack", "lose", "registered_broker", "take_away"]

PREFERRED: Final = 0
"""The type of an election of the preferred leader. KIP-460."""
ELECTIONS: Final = 1_000
"""Partitions of one request: Kafka refuses one that writes more than 10,000 records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many partitions are in trouble, as Kafka's metrics count them."""

    offline: int
    """Without a leader: OfflinePartitionsCount."""
    under_min_isr: int
    """With a leader, and fewer in the ISR than min.insync.replicas: UnderMinIsrPartitionCount."""
    under_replicated: int
    """With a leader, and a replica outside of the ISR: UnderReplicatedPartitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What differs once they are away: the partitions that change, and the counts of all."""

    before: Counts
    after: Counts
    partitions: Sequence[Difference]


def brokers_of_rack(state: ClusterState, rack: str) -> list[NodeId]:
    """Returns the registered brokers of a rack, by id. Raises ApiError(INVALID_REQUEST) if there is none."""
    found = [broker.id for broker in state.brokers if broker.rack == rack]
    if not found:
        racks = sorted({repr(broker.rack) for broker in state.brokers if broker.rack is not None})
        there = f"there are {', '.join(racks)}" if racks else "no broker names a rack"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"no registered broker is in rack {rack!r}; {there}")
    return found


def take_away(
    state: ClusterState,
    *,
    brokers: Sequence[NodeId],
    directories: Collection[Uuid] = (),
    settings: ControllerSettings,
    next_offset: Offset,
) -> Outcome:
    """Changes the state as the controller would if these directories failed, and then these brokers fell silent.

    The brokers are fenced one after the other, in this order, which decides who of the last ones leads at the end. Each
    command gets the offset of its first record, of which the first is `next_offset`. Raises ApiError, and changes
    nothing: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST for a directory that no broker has; UNSUPPORTED_VERSION for one
    below metadata.version 3.7-IV2, where the log has no directories of replicas (KIP-858).
    """
    registered = [registered_broker(state, broker_id) for broker_id in brokers]
    failed = _by_broker(state, directories)
    before = _counts(state, settings)
    touched = Touched(Image(state=state))
    _carry_out(state, _commands(state, registered, failed, settings), next_offset, note=touched.note)
    partitions = [each for each in touched.take() if each.noun.name == "partitions"]
    return Outcome(before=before, after=_counts(state, settings), partitions=partitions)


def lose(
    state: ClusterState,
    *,
    brokers: Sequence[NodeId],
    settings: ControllerSettings,
    next_offset: Offset,
    with_preferred_leaders: bool = False,
) -> None:
    """Changes the state as the controller would if these brokers fell silent, in this order, as `take_away` does.

    `with_preferred_leaders` elects these afterwards, like `kafka-leader-election --election-type preferred` (KIP-460).
    Raises ApiError(BROKER_ID_NOT_REGISTERED), and changes nothing.
    """
    registered = [registered_broker(state, broker_id) for broker_id in brokers]
    end = _carry_out(state, _commands(state, registered, {}, settings), next_offset)
    if with_preferred_leaders:
        _carry_out(state, _elections(state, settings), end)


def _carry_out(
    state: ClusterState,
    commands: Iterable[Command[Any]],
    next_offset: Offset,
    *,
    note: Callable[[Message], None] = lambda _: None,
) -> Offset:
    """Applies what each command writes, before the next is asked for; returns the offset of the next record."""
    offset = next_offset
    for command in commands:
        for record in command(state, Moment(next_offset=offset, now_ms=0)).records:
            note(record)
            state.apply(record, offset)
            offset += 1
        state.settle()
    return offset


def _elections(state: ClusterState, settings: ControllerSettings) -> Iterator[Command[Any]]:
    """Yields the elections of preferred leaders, of so many partitions each that no request is refused as too large."""
    led_by_others = [(topic.name, partition_id) for topic, partition_id, _ in state.topics.imbalanced()]
    for start in range(0, len(led_by_others), ELECTIONS):
        asked: dict[str, list[int]] = {}
        for name, partition_id in led_by_others[start : start + ELECTIONS]:
            asked.setdefault(name, []).append(partition_id)
        topics = tuple(ElectLeadersRequest.TopicPartitions(name, tuple(ids)) for name, ids in asked.items())
        yield elect_leaders(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topics), settings=settings)


def _commands(
    state: ClusterState,
    brokers: Sequence[Broker],
    failed: Mapping[NodeId, Collection[Uuid]],
    settings: ControllerSettings,
) -> Iterator[Command[Any]]:
    """Yields each command when the one before is carried out."""
    for broker_id, directories in failed.items():
        broker = registered_broker(state, broker_id)
        yield change_broker_state(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            target=_standing(broker),
            settings=settings,
            offline_log_dirs=directories,
        )
    for broker in brokers:
        yield from change_in_turns(
            state, broker_id=broker.id, broker_epoch=broker.epoch, target=ControlState.FENCED, settings=settings
        )


def _standing(broker: Broker) -> ControlState:
    """Returns the state in which the broker is, for a heartbeat that asks for no other."""
    if broker.fenced:
        return ControlState.FENCED
    return ControlState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else ControlState.UNFENCED


def registered_broker(state: ClusterState, broker_id: NodeId) -> Broker:
    """Returns a broker's registration. Raises ApiError(BROKER_ID_NOT_REGISTERED), which names those that there are."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        there = ", ".join(str(each.id) for each in state.brokers) or "none"
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered; registered are: {there}"
        )
    return broker


def _by_broker(state: ClusterState, directories: Collection[Uuid]) -> dict[NodeId, list[Uuid]]:
    level = state.features.record_level
    if directories and level < DIRECTORIES:
        since, this = release_of(DIRECTORIES), release_of(level)
        why = f"log directories are in the log from metadata.version {since} on; this is {this}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
    found: dict[NodeId, list[Uuid]] = {}
    for directory in directories:
        owner = state.brokers.owner_of(directory)
        if owner is None:
            why = f"no registered broker has the log directory {uuid_text(directory)}"
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        found.setdefault(owner, []).append(directory)
    return found


def _counts(state: ClusterState, settings: ControllerSettings) -> Counts:
    topics = state.topics
    return Counts(
        offline=topics.leader_count(NO_LEADER),
        under_min_isr=topics.under_min_isr_count(lambda topic: settings.min_insync_replicas(state, topic)),
        under_replicated=topics.under_replicated_count,
    )
