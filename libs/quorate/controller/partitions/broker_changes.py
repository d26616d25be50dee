"""Partition changes that follow from a broker's fencing, unfencing, failed directory or unclean shutdown.

A broker may be in the ISRs of very many partitions, so one such change may take many records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kraft import Uuid
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.partitions.elections import Election
from quorate.controller.partitions.partition_change import AlikePartitions, PartitionTarget, Rules, changed_fields
from quorate.metadata.brokers import Broker
from quorate.metadata.configs import TOPIC
from quorate.metadata.partitions import NO_LEADER, Partition, default_directory
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.nouns import LOST_DIRECTORY, NodeId, reserved_uuid
from quorate.records import PartitionChangeRecord

__all__ = ["Rulebook", "is_online", "joining", "leaving", "losing", "rules_for", "unclean_stop"]


def leaving(
    state: ClusterState,
    broker_id: NodeId,
    settings: ControllerSettings,
    among: Iterable[TopicPartition] | None = None,
    alike: AlikePartitions | None = None,
    away: Collection[NodeId] = (),
) -> Iterator[PartitionChangeRecord]:
    """Yields the changes for a broker that is fenced or shuts down: it leaves every ISR and leads nothing. KIP-631.

    It may stay in an ELR. `among` are partitions that have it in their ISR; None means all of them. `alike` caches the
    results of earlier chunks of the same change. `away` are brokers that count as fenced, whatever the state says.
    """
    found = state.topics.in_isr(broker_id) if among is None else among
    yield from _changes(state, found, settings, alike, gone=broker_id, away=away)


def joining(
    state: ClusterState,
    broker_id: NodeId,
    settings: ControllerSettings,
    among: Iterable[TopicPartition] | None = None,
    alike: AlikePartitions | None = None,
) -> Iterator[PartitionChangeRecord]:
    """Yields the changes for a broker that becomes active: it may lead partitions without a leader.

    It joins other ISRs by AlterPartition only. `among` are partitions without a leader; None means all. `alike` as in
    `leaving`.
    """
    found = state.topics.led_by(NO_LEADER) if among is None else among
    yield from _changes(state, found, settings, alike, come=broker_id)


def losing(
    state: ClusterState,
    broker_id: NodeId,
    directories: Collection[Uuid],
    settings: ControllerSettings,
    among: Iterable[TopicPartition] | None = None,
) -> Iterator[PartitionChangeRecord]:
    """Yields the changes for failed log directories: the replicas in them leave every ISR and lead nothing. KIP-858.

    `among` are partitions that have the broker as a replica; None means all of them.
    """
    found = state.topics.with_replica(broker_id) if among is None else among
    lost = (each for each in found if each.partition.directory_of(broker_id) in directories)
    yield from _changes(state, lost, settings, gone=broker_id)


def unclean_stop(
    state: ClusterState, broker_id: NodeId, settings: ControllerSettings, among: Sequence[TopicPartition] | None = None
) -> Iterator[PartitionChangeRecord]:
    """Yields the changes for a broker that registers after an unclean shutdown: its logs may lack their ends. KIP-966.

    If ELR is off, an unclean shutdown is like a clean one, but the broker leaves an ELR that is left from before. In
    Kafka it stays in that ELR, and may be elected from it though its log is in doubt.

    `among` are any partitions; only those with the broker in ISR or ELR change. None means all of them.
    """
    topics = state.topics
    in_isr, in_elr = topics.in_isr(broker_id), topics.in_elr(broker_id)
    if among is not None:
        in_isr = (found for found in among if broker_id in found.partition.isr)
        in_elr = (found for found in among if broker_id in found.partition.elr)
    if state.features.elr_enabled:
        yield from _changes(state, in_isr, settings, unclean=broker_id)
    else:
        yield from leaving(state, broker_id, settings, in_isr)
    yield from _changes(state, in_elr, settings, unclean=broker_id)


class Rulebook:
    """Builds the `Rules` for changes of partitions in one state, and caches what many partitions share."""

    __slots__ = ("_elections", "_is_active", "_may_lead", "_min_isrs", "_settings", "_state", "features")

    def __init__(
        self, state: ClusterState, settings: ControllerSettings, is_active: Callable[[NodeId], bool] | None = None
    ) -> None:
        """Creates the rules; `is_active` says which brokers may lead, by default those active in the state."""
        self._state = state
        self._settings = settings
        self._is_active = is_active or state.brokers.is_active
        self.features = state.features.record_level, state.features.elr_enabled
        self._min_isrs: dict[str, int] = {}
        self._elections: dict[str, Election] = {}
        self._may_lead: dict[tuple[NodeId, Uuid | None], bool] = {}

    def rules(self, topic_name: str, partition: Partition) -> Rules:
        """Returns the rules for a change of one partition in this state."""
        min_isr = self.min_isr(topic_name)
        level, elr_enabled = self.features

        def is_acceptable(replica: NodeId) -> bool:
            # A replica that is being added has no directory yet that could be offline.
            directory = partition.directory_of(replica) if replica in partition.replicas else None
            may_lead = self._may_lead.get((replica, directory))
            return self._ask_broker(replica, directory) if may_lead is None else may_lead

        return Rules(
            level=level,
            elr_enabled=elr_enabled,
            min_isr=min(min_isr, len(partition.replicas)),
            is_acceptable=is_acceptable,
            default_directory=self._default_directory,
        )

    def min_isr(self, topic_name: str) -> int:
        """Returns the topic's effective min.insync.replicas; it may exceed the number of replicas."""
        return self._min_isrs.get(topic_name) or self._ask_min_isr(topic_name)

    def election(self, topic_name: str) -> Election:
        """Returns how a leader is elected in a change that the controller makes by itself: UNCLEAN or ONLINE.

        UNCLEAN if the topic's unclean.leader.election.enable is true: a replica outside of the ISR may lead.
        """
        return self._elections.get(topic_name) or self._ask_election(topic_name)

    def _ask_min_isr(self, topic_name: str) -> int:
        asked = self._alike(topic_name)
        if asked not in self._min_isrs:
            self._min_isrs[asked] = self._settings.min_insync_replicas(self._state, asked)
        self._min_isrs[topic_name] = self._min_isrs[asked]
        return self._min_isrs[asked]

    def _ask_election(self, topic_name: str) -> Election:
        asked = self._alike(topic_name)
        if asked not in self._elections:
            uncleanly = self._settings.elects_uncleanly(self._state, asked)
            self._elections[asked] = Election.UNCLEAN if uncleanly else Election.ONLINE
        self._elections[topic_name] = self._elections[asked]
        return self._elections[asked]

    def _alike(self, topic_name: str) -> str:
        """Returns the name to look configs up by: "" for all topics without configs of their own."""
        return topic_name if self._state.configs.of(TOPIC, topic_name) else ""

    def _ask_broker(self, replica: NodeId, directory: Uuid | None) -> bool:
        """Returns (and caches) whether the broker is active and the replica's directory, if it has one, is online."""
        broker = self._state.brokers.get(replica)
        may_lead = broker is not None and self._is_active(replica)
        if broker is not None and directory is not None:
            may_lead = may_lead and is_online(directory, broker)
        self._may_lead[replica, directory] = may_lead
        return may_lead

    def _default_directory(self, replica: NodeId) -> Uuid:
        broker = self._state.brokers.get(replica)
        return default_directory(() if broker is None else broker.log_dirs)


def rules_for(state: ClusterState, topic_name: str, partition: Partition, settings: ControllerSettings) -> Rules:
    """Returns the change rules for one partition in this state."""
    return Rulebook(state, settings).rules(topic_name, partition)


def is_online(directory: Uuid, broker: Broker) -> bool:
    """Returns whether a replica of the broker in this directory can be used. KIP-858.

    It can if its directory is not assigned yet, and if the broker has registered no directories at all.
    """
    if directory == LOST_DIRECTORY:
        return False
    return reserved_uuid(directory) or not broker.log_dirs or directory in broker.log_dirs


def _changes(
    state: ClusterState,
    found: Iterable[TopicPartition],
    settings: ControllerSettings,
    alike: AlikePartitions | None = None,
    *,
    gone: NodeId | None = None,
    come: NodeId | None = None,
    unclean: NodeId | None = None,
    away: Collection[NodeId] = (),
) -> Iterator[PartitionChangeRecord]:
    assert (gone, come, unclean).count(None) == 2, f"one thing happens to one broker: {gone}, {come}, {unclean}"
    out = {gone, unclean}

    def is_active(replica: NodeId) -> bool:
        is_out = replica in out or replica in away
        return not is_out and (replica == come or state.brokers.is_active(replica))

    book = Rulebook(state, settings, is_active)
    circumstances = gone, come, unclean, tuple(away), book.features, tuple(state.brokers)
    known = (alike or AlikePartitions()).under(circumstances)
    unclean_shutdown = frozenset(() if unclean is None else (unclean,))
    alone = None if gone is None or state.features.elr_enabled else (gone,)
    for topic, partition_id, partition in found:
        election = book.election(topic.name)
        if partition.isr == alone and election is not Election.UNCLEAN and _waits(partition):
            continue  # nothing changes: the last ISR member stays; a fenced broker may be it in very many partitions
        kind = (partition.shape, book.min_isr(topic.name), election)
        changes = known.get(kind)
        if changes is None:
            wish = PartitionTarget(
                isr=tuple([replica for replica in partition.isr if replica not in out]),
                unclean_shutdown=unclean_shutdown,
                election=election,
            )
            changes = known[kind] = changed_fields(partition, wish, book.rules(topic.name, partition))
            _check_gone(partition, changes, out, elr_enabled=state.features.elr_enabled)
            assert come is None or _only_elects(partition, changes), (partition, changes)
        if changes:
            yield PartitionChangeRecord(partition_id, topic.id, **changes)


def _check_gone(
    partition: Partition, changes: Mapping[str, Any], out: Collection[NodeId | None], *, elr_enabled: bool
) -> None:
    """Asserts that the brokers `out` lead nothing after the change, and are in no ISR but as its last member."""
    leader, isr = changes.get("leader", partition.leader), changes.get("isr", partition.isr)
    assert leader not in out, (partition, changes, out)  # I-53
    is_last = leader == NO_LEADER and not elr_enabled
    assert is_last or set(isr).isdisjoint(out), (partition, changes, out)  # I-53


def _only_elects(partition: Partition, changes: Mapping[str, Any]) -> bool:
    """Returns whether nobody joins the ISR of a partition without a leader, except as its new leader."""
    leader, isr = changes.get("leader", partition.leader), changes.get("isr", partition.isr)
    return partition.leader == NO_LEADER and set(isr) <= {*partition.isr, leader}


def _waits(partition: Partition) -> bool:
    """Returns whether the partition has no leader, no reassignment, no ELR and no last known leader."""
    in_motion = partition.is_reassigning or partition.elr or partition.last_known_elr
    return partition.leader == NO_LEADER and not in_motion
