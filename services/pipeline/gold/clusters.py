"""A cluster's state and past in a Python worker: a ClusterState of the rows of its image, for cores without I/O.

Spark brings the state of a cluster, and what is `told` of its past, together in one worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kraft import Message, Uuid
from quorate.doctor import Condition, Moment, PartitionPast, Past, Unclean
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.faults import ReplayFault
from quorate.metadata.features import KRAFT_VERSION
from quorate.metadata.partitions import RECOVERED
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, parse_uuid, uuid_text
from quorate.pipeline.json_text import from_document
from quorate.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
    VotersRecord,
)
from quorate.wire.schema import layout_of
from services.pipeline.gold.pasts import Brokers, Configs, Held, Racks
from services.pipeline.gold.told import (
    AT,
    BROKER_STATE,
    ELECTED,
    PARTITION_PAST,
    PLACED,
    SINCE,
    UNCLEAN_CONFIG,
    VOTER_SET,
)
from services.pipeline.groups import codes
from services.pipeline.silver.image import PLACES, image_rows, record_of
from services.pipeline.silver.present import Present

__all__ = ["Cluster", "clusters", "rows_of_clusters"]

_ROWS: Final = ("cluster_id", "place", "kind", "type", "value", "raw", "at_offset", "at_ms")
PARTITION: Final = "partition"
_OF_VOTERS: Final = layout_of(VotersRecord).last_version


def rows_of_clusters(now: Present, told: Sequence[DataFrame] = ()) -> DataFrame:
    """Returns the rows from which `clusters` builds the state and the past of each cluster, those of each together.

    `told` are rows of the past, with columns of `told.SCHEMA`.
    """
    tables = {
        "topic_history": now.topics,
        "partition_history": now.partitions,
        "config_history": now.configs,
        "broker_history": now.brokers,
        "kept_history": now.kept,
    }
    since = (fn.col("since_offset").alias("at_offset"), fn.unix_millis("since_time").alias("at_ms"))
    state = image_rows(tables, ("since_offset", "since_time")).select(
        "cluster_id", "kind", "type", "value", "raw", *since
    )
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), [state, *told])
    ends = now.at.select(
        "cluster_id",
        fn.lit(AT).alias("kind"),
        fn.col("as_of_offset").alias("at_offset"),
        fn.unix_millis("as_of_time").alias("at_ms"),
    )
    rows = rows.unionByName(ends, allowMissingColumns=True).withColumn("place", _place())
    ordered = ("cluster_id", "place", "at_offset")
    return rows.select(*_ROWS).repartition("cluster_id").sortWithinPartitions(*ordered)


def clusters(batches: Iterator[pa.RecordBatch]) -> Iterator[Cluster]:
    """Yields each cluster of one Spark partition of `rows_of_clusters`, when all its rows are taken."""
    cluster: Cluster | None = None
    begun: set[str] = set()
    for batch in batches:
        for cluster_id, rows in _by_cluster(batch):
            if cluster is None or cluster.id != cluster_id:
                if cluster is not None:
                    yield cluster
                assert cluster_id not in begun, cluster_id  # each time a part of it would be taken for all
                begun.add(cluster_id)
                cluster = Cluster(cluster_id)
            cluster.take(rows)
    if cluster is not None:
        yield cluster


def _place() -> Column:
    """The order in which a state is built: its offset is known first."""
    kinds = fn.array(*(fn.lit(kind) for kind in (AT, *PLACES)))
    at = fn.array_position(kinds, fn.col("kind"))
    return fn.when(at == 0, len(PLACES) + 2).otherwise(at)


def _by_cluster(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Table]]:
    """Yields the rows of each cluster, which are neighbours."""
    rows = pa.Table.from_batches([batch])
    ids = codes(rows["cluster_id"])
    bounds = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    for start, end in pairwise(bounds):
        if end > start:
            yield rows["cluster_id"][start].as_py(), rows.slice(start, end - start)


class _Row(NamedTuple):
    """A row of the state, which has been as it is since `at`, or one of the past (`told`), in columns of _ROWS."""

    kind: str
    type: str
    value: str
    raw: bytes | None
    at_offset: int | None
    at_ms: int | None

    @property
    def at(self) -> Moment:
        """The record that made the row what it is."""
        assert self.at_offset is not None, self
        return Moment(self.at_offset, self.at_ms)


class _Partition(msgspec.Struct, rename="camel", gc=False):
    """A PartitionRecord as JSON. There may be a million, and the general decoder of records takes ten times as long."""

    partition_id: int
    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED
    directories: tuple[str, ...] | None = None
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


_DECODER: Final = msgspec.json.Decoder(_Partition)


class Cluster:
    """Builds a cluster's state, and the past that its history tells, of the rows of `rows_of_clusters`."""

    def __init__(self, cluster_id: str) -> None:
        self.id = cluster_id
        self.state = ClusterState()
        self.end = Moment(0, None)
        self.voters: VotersRecord | None = None
        self.kraft_version = 0
        self.elected: frozenset[NodeId] = frozenset()
        self._moments: dict[tuple[str, str], Moment] = {}
        self._partitions: dict[tuple[Uuid, int], PartitionPast] = {}
        self._births: dict[str, Moment] = {}
        self._brokers, self._configs, self._racks = Brokers(), Configs(), Racks()
        self._sets = {Condition.EVEN_VOTERS: Held(), Condition.SINGLE_VOTER: Held()}
        self._place = 0
        self._shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._notes: Mapping[str, Callable[[_Row], None]] = {
            AT: self._note_end,
            SINCE: self._note_since,
            PARTITION_PAST: self._note_partition,
            BROKER_STATE: self._note_broker,
            VOTER_SET: self._note_voter_set,
            UNCLEAN_CONFIG: lambda row: self._configs.take(json.loads(row.value), row.at),
            PLACED: lambda row: self._racks.place(json.loads(row.value), row.at),
            ELECTED: self._note_elected,
            "voters": self._note_voters,
            "kraft_version": self._note_kraft_version,
        }

    def take(self, rows: pa.Table) -> None:
        """Takes the next rows of the cluster, in the order of their places.

        A record that contradicts the others, as no controller writes it, is left out: the log is as it is, and what can
        be said of all else is said.
        """
        places = np.append(self._place, rows["place"].to_numpy())
        assert (np.diff(places) >= 0).all(), places  # else a record seems to contradict others, and is left out
        self._place = places[-1]
        records = iter(list(self._records(rows)))  # to its end, so that the state's own is known
        while True:
            try:
                return self.state.load_more(records, self.end.offset)
            except ReplayFault:
                continue  # it has changed nothing, and the records behind it follow

    @property
    def past(self) -> Past:
        """The past that its history shows, once all its rows are taken."""
        for condition, subject, at in self._brokers.moments(self.end):
            self._note(condition, subject, at)
        for topic, at in self._configs.elects_uncleanly(self._births, self.end):
            self._note(Condition.ELECTS_UNCLEANLY, f"topic {topic}", at)
        for topic, at in self._racks.crowded(self.end):
            self._note(Condition.CROWDED, f"topic {topic}", at)
        for condition, held in self._sets.items():
            if held.since is not None:
                self._note(condition, "quorum", held.since)
        return Past(moments=self._moments, partitions=self._partitions, brokers=self._brokers.pasts(self.end))

    def _records(self, rows: pa.Table) -> Iterator[Message]:
        """Yields the records of the state, and notes all else."""
        for row in map(_Row, *(rows[name].to_pylist() for name in _ROWS[2:])):
            if row.kind == PARTITION:
                yield self._partition(row.value)
            elif (note := self._notes.get(row.kind)) is not None:
                note(row)
            else:
                record = record_of(row.kind, row.type, row.value, row.raw)
                if row.at_offset is not None:
                    self._note_there(record, row.at)
                yield record

    def _partition(self, text: str) -> PartitionRecord:
        """Returns a partition's record; equal tuples are shared, as most partitions have their replicas in common."""
        found = _DECODER.decode(text)
        replicas, isr, removing, adding, elr, last = (
            self._shared.setdefault(each, each)
            for each in (
                found.replicas,
                found.isr,
                found.removing_replicas,
                found.adding_replicas,
                found.eligible_leader_replicas or (),
                found.last_known_elr or (),
            )
        )
        return PartitionRecord(
            found.partition_id,
            _uuid(found.topic_id),
            replicas,
            isr,
            removing,
            adding,
            found.leader,
            found.leader_recovery_state,
            found.leader_epoch,
            found.partition_epoch,
            _uuids(found.directories or ()),
            elr,
            last,
        )

    def _note(self, condition: str, subject: str, at: Moment) -> None:
        """Notes since when a condition has held of a subject, or of the first of several that make it hold."""
        known = self._moments.get((condition, subject))
        if known is None or (at.offset, at.time_ms or 0) < (known.offset, known.time_ms or 0):
            self._moments[condition, subject] = at

    def _note_there(self, record: Message, at: Moment) -> None:
        """Notes since when something has been as it is."""
        match record:
            case TopicRecord():
                self._births[record.name] = at
            case FeatureLevelRecord():
                self._note(Condition.LEVEL, f"feature {record.name}", at)
            case ConfigRecord() if record.resource_type in (TOPIC, BROKER) and record.resource_name:
                kind = "topic" if record.resource_type == TOPIC else "broker"
                self._note(Condition.THERE, f"{kind} {record.resource_name}", at)
            case AccessControlEntryRecord():
                self._note(Condition.THERE, f"acl {uuid_text(record.id)}", at)
            case DelegationTokenRecord():
                self._note(Condition.THERE, f"delegation token {record.token_id}", at)

    def _note_end(self, row: _Row) -> None:
        self.end = row.at

    def _note_since(self, row: _Row) -> None:
        self._note(row.type, row.value, row.at)

    def _note_partition(self, row: _Row) -> None:
        found = json.loads(row.value)
        last = found.get("unclean")
        unclean = (
            None
            if last is None
            else Unclean(leader=last["leader"], at=Moment(last["offset"], last.get("ms")), count=last["count"])
        )
        self._partitions[parse_uuid(found["topic_id"]), found["partition_id"]] = PartitionPast(
            last_leader=found.get("last_leader"),
            isr_changed_ms=found.get("isr_changed_ms"),
            isr_was=found.get("isr_was"),
            unclean=unclean,
        )

    def _note_broker(self, row: _Row) -> None:
        state = json.loads(row.value)
        self._brokers.take(state, row.at)
        self._racks.take(state, row.at)

    def _note_voter_set(self, row: _Row) -> None:
        # Every active controller writes the set again, so its number of voters counts. KIP-853.
        count = len(json.loads(row.value)["voters"])
        self._sets[Condition.EVEN_VOTERS].note(count % 2 == 0, row.at)
        self._sets[Condition.SINGLE_VOTER].note(count == 1, row.at)

    def _note_voters(self, row: _Row) -> None:
        if row.at_offset is not None:
            self._note(Condition.THERE, "quorum", row.at)
        voters = from_document(VotersRecord, _OF_VOTERS, json.loads(row.value))
        assert isinstance(voters, VotersRecord), voters
        self.voters = voters

    def _note_kraft_version(self, row: _Row) -> None:
        if row.at_offset is not None:
            self._note(Condition.LEVEL, f"feature {KRAFT_VERSION}", row.at)
        self.kraft_version = json.loads(row.value)["kRaftVersion"]

    def _note_elected(self, row: _Row) -> None:
        self.elected = frozenset(each["voterId"] for each in json.loads(row.value)["voters"])


@lru_cache(maxsize=1 << 16)
def _uuid(text: str) -> Uuid:
    return parse_uuid(text)


@lru_cache(maxsize=1 << 16)
def _uuids(texts: tuple[str, ...]) -> tuple[Uuid, ...]:
    return tuple(map(_uuid, texts))
