"""ChangeBrokerState: fences, unfences or shuts down a broker, as the heartbeat service proposes. KIP-631.

Kafka decides this in its heartbeat handler. Here the heartbeat service only proposes a state: the metadata log says
what a broker leads and whether it is fenced, so this command decides on the metadata state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import assert_never

from kraft import Message, Uuid
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.partitions.broker_changes import joining, leaving, losing
from quorate.controller.partitions.chunked_change import (
    DEFAULT_LIMITS,
    ChunkLimits,
    Key,
    chunks,
    in_isr,
    leaderless,
    present,
)
from quorate.controller.partitions.partition_change import AlikePartitions
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES
from quorate.nouns import NodeId
from quorate.records import BrokerRegistrationChangeRecord, PartitionChangeRecord

__all__ = ["BrokerStateChanged", "change_broker_state", "change_in_turns"]

_FENCE, _UNFENCE, _SHUT_DOWN = 1, -1, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStateChanged:
    """The response: the broker's state once this is committed, which may differ from the requested one."""

    state: ControlState


def change_broker_state(
    *,
    broker_id: NodeId,
    broker_epoch: int,
    target: ControlState,
    settings: ControllerSettings,
    offline_log_dirs: Collection[Uuid] = (),
    cordoned_log_dirs: Collection[Uuid] | None = None,
    has_led: bool = False,
) -> Command[BrokerStateChanged]:
    """Returns the command that moves the broker to `target`, or as near as allowed, and updates its directories.

    If CONTROLLED_SHUTDOWN is requested for a broker that leads nothing, the result is SHUTDOWN_NOW. A broker in
    CONTROLLED_SHUTDOWN that still leads stays in it. A broker that requests SHUTDOWN_NOW without it is fenced. Only a
    new registration leads from CONTROLLED_SHUTDOWN back to UNFENCED. `has_led`: the broker led partitions until earlier
    commands of `change_in_turns` moved them, so it counts as leading. `offline_log_dirs` have failed: replicas in them
    leave ISR and leadership. `cordoned_log_dirs` are all that are cordoned now; None leaves them as they are.

    The command raises ApiError: BROKER_ID_NOT_REGISTERED; STALE_BROKER_EPOCH for another registration than the
    present one.
    """

    def command(state: ClusterState, _: Moment) -> Decision[BrokerStateChanged]:
        broker = _checked(state, broker_id, broker_epoch)
        leads = has_led or state.topics.leader_count(broker_id) > 0
        reached = _reachable(broker, target, leads=leads)
        assert reached is not ControlState.UNFENCED or not broker.in_controlled_shutdown, broker
        is_asked = target is ControlState.SHUTDOWN_NOW or reached is not ControlState.SHUTDOWN_NOW
        assert is_asked or broker.fenced or not leads, broker  # I-67
        failed = _failed(state, broker, offline_log_dirs)
        assert set(failed).issubset(broker.log_dirs), (broker, failed)
        records = (
            *_records(state, broker, reached, failed, settings),
            *_lost(state, broker, reached, failed, settings),
            *_cordoned(state, broker, cordoned_log_dirs),
        )
        changed = [(each.topic_id, each.partition_id) for each in records if isinstance(each, PartitionChangeRecord)]
        assert len(set(changed)) == len(changed), (
            f"a partition changes twice: broker {broker_id} to {reached}, {failed}"
        )
        return Decision(BrokerStateChanged(state=reached), records, atomic=False)

    return command


def change_in_turns(
    state: ClusterState,
    *,
    broker_id: NodeId,
    broker_epoch: int,
    target: ControlState,
    settings: ControllerSettings,
    offline_log_dirs: Collection[Uuid] = (),
    cordoned_log_dirs: Collection[Uuid] | None = None,
    limits: ChunkLimits = DEFAULT_LIMITS,
) -> Iterator[Command[BrokerStateChanged]]:
    """Yields commands that together do what `change_broker_state` does: one, or several if very many partitions change.

    Others' commands may run in between (see `chunked_change`). Request each command after the one before is decided,
    on the same `state`. The response of the last command is that of the change.
    """
    broker = state.brokers.get(broker_id)
    has_led = False
    if broker is not None and broker.epoch == broker_epoch:
        leads = state.topics.leader_count(broker_id) > 0
        failed = _failed(state, broker, offline_log_dirs)
        for command in _ahead(state, broker, _reachable(broker, target, leads=leads), failed, settings, limits):
            has_led = leads  # its partitions move before it does: it must wait until others know that
            yield command
    yield change_broker_state(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        target=target,
        settings=settings,
        offline_log_dirs=offline_log_dirs,
        cordoned_log_dirs=cordoned_log_dirs,
        has_led=has_led,
    )


def _ahead(
    state: ClusterState,
    broker: Broker,
    reached: ControlState,
    failed: tuple[Uuid, ...],
    settings: ControllerSettings,
    limits: ChunkLimits,
) -> Iterator[Command[BrokerStateChanged]]:
    """Yields the commands that change very many partitions in chunks, before the final command; none for a few."""
    topics, alike = state.topics, AlikePartitions()
    if reached is ControlState.UNFENCED:
        if broker.fenced and topics.leader_count(NO_LEADER) > limits.uncut_max:
            yield _unfence(broker, failed)
            for keys in chunks(topics, leaderless, limits):
                yield _into(keys, broker, failed, settings, alike)
    elif broker.is_active and topics.isr_count(broker.id) > limits.changed_max:
        for keys in chunks(topics, in_isr(broker.id), limits):
            yield _out_of(keys, broker, reached, settings, alike)


def _unfence(broker: Broker, failed: tuple[Uuid, ...]) -> Command[BrokerStateChanged]:
    """Returns the command that unfences the broker, unless its registration has changed meanwhile.

    First it takes the failed directories from the registration: others that elect leaders in between look at it. No
    partition changes with them, as a fenced broker leads nothing and is in no ISR but as its last member.
    """

    def command(state: ClusterState, _: Moment) -> Decision[BrokerStateChanged]:
        is_same = _checked(state, broker.id, broker.epoch) == broker
        records = (*_without(broker, failed), _change(broker, fenced=_UNFENCE)) if is_same else ()
        return Decision(BrokerStateChanged(state=ControlState.UNFENCED), records)

    return command


def _out_of(
    keys: tuple[Key, ...], broker: Broker, reached: ControlState, settings: ControllerSettings, alike: AlikePartitions
) -> Command[BrokerStateChanged]:
    """Returns the command that removes the broker from the ISRs of these partitions."""

    def command(state: ClusterState, _: Moment) -> Decision[BrokerStateChanged]:
        _checked(state, broker.id, broker.epoch)
        among = (found for found in present(state, keys) if broker.id in found.partition.isr)
        records = tuple(leaving(state, broker.id, settings, among, alike))
        assert len(records) <= len(keys), (broker.id, len(records), len(keys))
        return Decision(BrokerStateChanged(state=reached), records)

    return command


def _into(
    keys: tuple[Key, ...],
    broker: Broker,
    failed: tuple[Uuid, ...],
    settings: ControllerSettings,
    alike: AlikePartitions,
) -> Command[BrokerStateChanged]:
    """Returns the command that elects leaders for those of these partitions without one, if the broker is active."""

    def command(state: ClusterState, _: Moment) -> Decision[BrokerStateChanged]:
        _checked(state, broker.id, broker.epoch)
        is_there = state.brokers.is_active(broker.id)
        waiting = (found for found in present(state, keys) if is_there and not found.partition.has_leader)
        among = (found for found in waiting if not _lies_in(failed, broker, found))
        records = tuple(joining(state, broker.id, settings, among, alike))
        assert len(records) <= len(keys), (broker.id, len(records), len(keys))
        return Decision(BrokerStateChanged(state=ControlState.UNFENCED), records)

    return command


def _checked(state: ClusterState, broker_id: NodeId, broker_epoch: int) -> Broker:
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered in broker epoch {broker.epoch}; the change is for epoch {broker_epoch}",
        )
    return broker


def _reachable(broker: Broker, target: ControlState, *, leads: bool) -> ControlState:
    match target:
        case ControlState.FENCED:
            return ControlState.FENCED
        case ControlState.UNFENCED:
            if broker.in_controlled_shutdown:
                return ControlState.FENCED if broker.fenced else ControlState.CONTROLLED_SHUTDOWN
            return ControlState.UNFENCED
        case ControlState.CONTROLLED_SHUTDOWN:
            # A broker in it waits until the others know its successors; the heartbeat service checks that.
            waits = (leads or broker.in_controlled_shutdown) and not broker.fenced
            return ControlState.CONTROLLED_SHUTDOWN if waits else ControlState.SHUTDOWN_NOW
        case ControlState.SHUTDOWN_NOW:
            waits = leads and broker.in_controlled_shutdown and not broker.fenced
            return ControlState.CONTROLLED_SHUTDOWN if waits else ControlState.SHUTDOWN_NOW
        case _:
            assert_never(target)


def _failed(state: ClusterState, broker: Broker, offline: Collection[Uuid]) -> tuple[Uuid, ...]:
    """Returns the broker's registered directories that went offline; none below 3.7-IV2. KIP-858."""
    if state.features.record_level < DIRECTORIES:
        return ()
    return tuple(directory for directory in broker.log_dirs if directory in offline)


def _records(
    state: ClusterState, broker: Broker, reached: ControlState, failed: Collection[Uuid], settings: ControllerSettings
) -> Iterator[Message]:
    """Yields the records in Kafka's order: ISR changes before fencing; the broker's own record before it may lead."""
    if _leaves(broker, reached) and reached is not ControlState.CONTROLLED_SHUTDOWN:
        yield from leaving(state, broker.id, settings)
        yield _change(broker, fenced=_FENCE)
    elif _leaves(broker, reached):
        yield _change(broker, in_controlled_shutdown=_SHUT_DOWN)
        yield from leaving(state, broker.id, settings)
    elif reached is ControlState.UNFENCED and broker.fenced:
        yield _change(broker, fenced=_UNFENCE)
        found = state.topics.led_by(NO_LEADER)
        yield from joining(state, broker.id, settings, (each for each in found if not _lies_in(failed, broker, each)))


def _leaves(broker: Broker, reached: ControlState) -> bool:
    """Returns whether the change removes the broker from every ISR."""
    match reached:
        case ControlState.FENCED | ControlState.SHUTDOWN_NOW:
            return not broker.fenced
        case ControlState.CONTROLLED_SHUTDOWN:
            return not broker.in_controlled_shutdown
        case ControlState.UNFENCED:
            return False
        case _:
            assert_never(reached)


def _lost(
    state: ClusterState, broker: Broker, reached: ControlState, failed: tuple[Uuid, ...], settings: ControllerSettings
) -> Iterator[Message]:
    """Yields the changes of partitions in failed directories, then the registration without these directories. KIP-858.

    Partitions that this change already moves are skipped. Kafka decides both on the same state, so that a partition may
    change twice, and an unfenced broker may be elected in the directory that it has lost.
    """
    if not failed:
        return
    found = state.topics.with_replica(broker.id)
    leaves = _leaves(broker, reached)
    among = (each for each in found if not (leaves and broker.id in each.partition.isr))
    yield from losing(state, broker.id, failed, settings, among)
    yield from _without(broker, failed)


def _without(broker: Broker, failed: tuple[Uuid, ...]) -> Iterator[Message]:
    """Yields the change of the registration that takes its failed directories from it, if there are any."""
    left = tuple(directory for directory in broker.log_dirs if directory not in failed)
    assert len(left) + len(failed) == len(broker.log_dirs), (broker, failed, left)
    if failed:
        yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)


def _lies_in(directories: Collection[Uuid], broker: Broker, found: TopicPartition) -> bool:
    partition = found.partition
    return broker.id in partition.replicas and partition.directory_of(broker.id) in directories


def _cordoned(state: ClusterState, broker: Broker, cordoned: Collection[Uuid] | None) -> Iterator[Message]:
    """Yields the change of the broker's cordoned directories, if there is one; from 4.3-IV0 on. KIP-1066."""
    known = broker.cordoned_log_dirs
    is_news = cordoned is not None and (known is None or set(known) != set(cordoned))
    if is_news and state.features.record_level >= CORDONED_DIRECTORIES:
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=tuple(cordoned or ())
        )


def _change(broker: Broker, *, fenced: int = 0, in_controlled_shutdown: int = 0) -> BrokerRegistrationChangeRecord:
    assert (fenced, in_controlled_shutdown) in ((_FENCE, 0), (_UNFENCE, 0), (0, _SHUT_DOWN)), (fenced, broker)
    assert fenced != (_FENCE if broker.fenced else _UNFENCE), f"nothing changes: {broker}"
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=in_controlled_shutdown
    )
