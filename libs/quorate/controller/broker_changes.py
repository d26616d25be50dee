"""What it means for partitions that a broker comes, goes, or comes back without having said goodbye.

Each of these touches every partition that has the broker in its ISR, so the records of one change may be many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from kraft import Uuid
from quorate.controller.elections import Election
from quorate.controller.partition_change import Alike, Rules, Wish, changed_fields
from quorate.controller.settings import Settings
from quorate.metadata.brokers import Broker
from quorate.metadata.configs import TOPIC
from quorate.metadata.partitions import NO_LEADER, Partition, default_directory
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Found
from quorate.nouns import LOST_DIRECTORY, NodeId, reserved_uuid
from quorate.records import PartitionChangeRecord

__all__ = ["Rulebook", "is_online", "joining", "leaving", "losing", "rules_for", "unclean_stop"]


def leaving(
    state: ClusterState,
    broker_id: NodeId,
    settings: Settings,
    among: Iterable[Found] | None = None,
    alike: Alike | None = None,
) -> Iterator[PartitionChangeRecord]:
    """The broker is fenced, or on its way out: it leads nothing and is in no ISR. It may stay in an ELR. KIP-631.

    `among` are partitions that have it in their ISR; all of them if not given. `alike` is what was decided of others in
    the same change.
    """
    found = state.topics.in_isr(broker_id) if among is None else among
    yield from _changes(state, found, settings, alike, gone=broker_id)


def joining(
    state: ClusterState,
    broker_id: NodeId,
    settings: Settings,
    among: Iterable[Found] | None = None,
    alike: Alike | None = None,
) -> Iterator[PartitionChangeRecord]:
    """The broker is there again: it may lead what nobody leads. Into an ISR it comes by AlterPartition only.

    `among` are partitions without a leader; all of them if not given. `alike`: as in `leaving`.
    """
    found = state.topics.led_by(NO_LEADER) if among is None else among
    yield from _changes(state, found, settings, alike, come=broker_id)


def losing(
    state: ClusterState,
    broker_id: NodeId,
    directories: Collection[Uuid],
    settings: Settings,
    among: Iterable[Found] | None = None,
) -> Iterator[PartitionChangeRecord]:
    """Some of the broker's directories have failed: its replicas there lead nothing and are in no ISR. KIP-858.

    `among` are partitions that have it as a replica; all of them if not given.
    """
    found = state.topics.with_replica(broker_id) if among is None else among
    lost = (each for each in found if each.partition.directory_of(broker_id) in directories)
    yield from _changes(state, lost, settings, gone=broker_id)


def unclean_stop(
    state: ClusterState, broker_id: NodeId, settings: Settings, among: Sequence[Found] | None = None
) -> Iterator[PartitionChangeRecord]:
    """A new incarnation registers, and the last did not stop in order: its logs may have lost their ends. KIP-966.

    Without ELR an unclean stop is like a clean one; but an ELR that is left from when there was one ends with it. In
    Kafka the broker stays in that, and may be elected from it though its records are in doubt.

    `among` are partitions, whether they have it in ISR or ELR or not; all that have it if not given.
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
    """The rules that hold for partitions now: what many have in common is asked once. Good for one state only."""

    __slots__ = ("_elections", "_is_active", "_may_lead", "_min_isrs", "_settings", "_state", "features")

    def __init__(
        self, state: ClusterState, settings: Settings, is_active: Callable[[NodeId], bool] | None = None
    ) -> None:
        """`is_active` says which brokers may lead, if not those that the state has as active."""
        self._state = state
        self._settings = settings
        self._is_active = is_active or state.brokers.is_active
        self.features = state.features.record_level, state.features.elr_enabled
        self._min_isrs: dict[str, int] = {}
        self._elections: dict[str, Election] = {}
        self._may_lead: dict[tuple[NodeId, Uuid | None], bool] = {}

    def rules(self, topic_name: str, partition: Partition) -> Rules:
        """Those of one partition."""
        min_isr = self.min_isr(topic_name)
        level, elr_enabled = self.features

        def is_acceptable(replica: NodeId) -> bool:
            # A replica that is only to come has no directory yet that could be offline.
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
        """How many in-sync replicas a write to the topic needs, be there so many or not."""
        return self._min_isrs.get(topic_name) or self._ask_min_isr(topic_name)

    def election(self, topic_name: str) -> Election:
        """How a leader is found where none is asked for: by any means only if the topic wants it so."""
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
        """The topic to ask about: all of which nothing is set are like the one without a name."""
        return topic_name if self._state.configs.of(TOPIC, topic_name) else ""

    def _ask_broker(self, replica: NodeId, directory: Uuid | None) -> bool:
        """Is the broker active, and the replica's directory, if it has one, online?"""
        broker = self._state.brokers.get(replica)
        may_lead = broker is not None and self._is_active(replica)
        if broker is not None and directory is not None:
            may_lead = may_lead and is_online(directory, broker)
        self._may_lead[replica, directory] = may_lead
        return may_lead

    def _default_directory(self, replica: NodeId) -> Uuid:
        broker = self._state.brokers.get(replica)
        return default_directory(() if broker is None else broker.log_dirs)


def rules_for(state: ClusterState, topic_name: str, partition: Partition, settings: Settings) -> Rules:
    """The rules that hold for one partition now."""
    return Rulebook(state, settings).rules(topic_name, partition)


def is_online(directory: Uuid, broker: Broker) -> bool:
    """Can a replica in this directory be used? One whose directory nobody knows can, for all we know. KIP-858."""
    if directory == LOST_DIRECTORY:
        return False
    return reserved_uuid(directory) or not broker.log_dirs or directory in broker.log_dirs


def _changes(
    state: ClusterState,
    found: Iterable[Found],
    settings: Settings,
    alike: Alike | None = None,
    *,
    gone: NodeId | None = None,
    come: NodeId | None = None,
    unclean: NodeId | None = None,
) -> Iterator[PartitionChangeRecord]:
    out = {gone, unclean}

    def is_active(replica: NodeId) -> bool:
        return replica not in out and (replica == come or state.brokers.is_active(replica))

    book = Rulebook(state, settings, is_active)
    known = (alike or Alike()).under((gone, come, unclean, book.features, tuple(state.brokers)))
    unclean_shutdown = frozenset(() if unclean is None else (unclean,))
    alone = None if gone is None or state.features.elr_enabled else (gone,)
    for topic, partition_id, partition in found:
        election = book.election(topic.name)
        if partition.isr == alone and election is not Election.UNCLEAN and _waits(partition):
            continue  # the last ISR member is remembered: a fenced broker may be that of very many partitions
        kind = (partition.shape, book.min_isr(topic.name), election)
        changes = known.get(kind)
        if changes is None:
            wish = Wish(
                isr=tuple([replica for replica in partition.isr if replica not in out]),
                unclean_shutdown=unclean_shutdown,
                election=election,
            )
            changes = known[kind] = changed_fields(partition, wish, book.rules(topic.name, partition))
        if changes:
            yield PartitionChangeRecord(partition_id, topic.id, **changes)


def _waits(partition: Partition) -> bool:
    """Is there nothing to it but that nobody leads it?"""
    in_motion = partition.is_reassigning or partition.elr or partition.last_known_elr
    return partition.leader == NO_LEADER and not in_motion
