"""What it means for partitions that a broker comes, goes, or comes back without having said goodbye.

Each of these touches every partition that has the broker in its ISR, so the records of one change may be many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from kraft import Uuid
from quorate.controller.elections import Election
from quorate.controller.partition_change import Rules, Wish, partition_change
from quorate.controller.settings import Settings
from quorate.metadata.brokers import Broker
from quorate.metadata.partitions import NO_LEADER, Partition, default_directory
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Found
from quorate.nouns import LOST_DIRECTORY, NodeId, reserved_uuid
from quorate.records import PartitionChangeRecord

__all__ = ["is_online", "joining", "leaving", "rules_for", "unclean_stop"]


def leaving(state: ClusterState, broker_id: NodeId, settings: Settings) -> Iterator[PartitionChangeRecord]:
    """The broker is fenced, or on its way out: it leads nothing and is in no ISR. It may stay in an ELR. KIP-631."""
    yield from _changes(state, state.topics.in_isr(broker_id), settings, gone=broker_id)


def joining(state: ClusterState, broker_id: NodeId, settings: Settings) -> Iterator[PartitionChangeRecord]:
    """The broker is there again: it may lead what nobody leads. Into an ISR it comes by AlterPartition only."""
    yield from _changes(state, state.topics.led_by(NO_LEADER), settings, come=broker_id)


def unclean_stop(state: ClusterState, broker_id: NodeId, settings: Settings) -> Iterator[PartitionChangeRecord]:
    """A new incarnation registers, and the last did not stop in order: its logs may have lost their ends. KIP-966.

    Without ELR an unclean stop is like a clean one.
    """
    if not state.features.elr_enabled:
        yield from leaving(state, broker_id, settings)
        return
    yield from _changes(state, state.topics.in_isr(broker_id), settings, unclean=broker_id)
    yield from _changes(state, state.topics.in_elr(broker_id), settings, unclean=broker_id)


def rules_for(state: ClusterState, topic_name: str, partition: Partition, settings: Settings) -> Rules:
    """The rules that hold for one partition now."""
    return _rules(state, partition, settings.min_insync_replicas(state, topic_name), state.brokers.is_active)


def is_online(directory: Uuid, broker: Broker) -> bool:
    """Can a replica in this directory be used? One whose directory nobody knows can, for all we know. KIP-858."""
    if directory == LOST_DIRECTORY:
        return False
    return reserved_uuid(directory) or not broker.log_dirs or directory in broker.log_dirs


def _changes(
    state: ClusterState,
    found: Iterable[Found],
    settings: Settings,
    *,
    gone: NodeId | None = None,
    come: NodeId | None = None,
    unclean: NodeId | None = None,
) -> Iterator[PartitionChangeRecord]:
    out = {gone, unclean}

    def is_active(replica: NodeId) -> bool:
        return replica not in out and (replica == come or state.brokers.is_active(replica))

    # Asked once a topic, not once a partition.
    elects_uncleanly = cache(partial(settings.elects_uncleanly, state))
    min_insync_replicas = cache(partial(settings.min_insync_replicas, state))
    for topic, partition_id, partition in found:
        wish = Wish(
            isr=tuple(replica for replica in partition.isr if replica not in out),
            unclean_shutdown=frozenset() if unclean is None else frozenset((unclean,)),
            election=Election.UNCLEAN if elects_uncleanly(topic.name) else Election.ONLINE,
        )
        rules = _rules(state, partition, min_insync_replicas(topic.name), is_active)
        change = partition_change(partition, topic.id, partition_id, wish, rules)
        if change is not None:
            yield change


def _rules(
    state: ClusterState, partition: Partition, min_insync_replicas: int, is_active: Callable[[NodeId], bool]
) -> Rules:
    def is_acceptable(replica: NodeId) -> bool:
        broker = state.brokers.get(replica)
        if broker is None or not is_active(replica):
            return False
        # A replica that is only to come has no directory yet that could be offline.
        return replica not in partition.replicas or is_online(partition.directory_of(replica), broker)

    return Rules(
        level=state.features.record_level,
        elr_enabled=state.features.elr_enabled,
        min_isr=min(min_insync_replicas, len(partition.replicas)),
        is_acceptable=is_acceptable,
        default_directory=lambda replica: _default_directory(state.brokers.get(replica)),
    )


def _default_directory(broker: Broker | None) -> Uuid:
    return default_directory(() if broker is None else broker.log_dirs)
