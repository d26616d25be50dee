"""Logs written by hand: what happens to a cluster, and when; and the tables of silver made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft import Message, Uuid
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import uuid_text
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    VotersRecord,
    encode_record,
)
from quorate.storage.names import META_PROPERTIES, QUORUM_STATE
from quorate.wire.batch import ControlType, control_batch, data_batch
from quorate.wire.codec import encode
from tests.pipeline.in_memory import InMemory
from tests.pipeline.logs import NOON_MS, node, segment
from tests.pipeline.walks import Logged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from services.pipeline.tables import Tables

Ranges = Mapping[str, tuple[int, int]]
LEVELS: Ranges = {"metadata.version": (7, 25), "kraft.version": (0, 1)}
"""What the nodes here support, unless they say otherwise."""


FURNISHED: Final = "furnished"
CONTROL: Final[Mapping[type[Message], ControlType]] = {
    VotersRecord: ControlType.KRAFT_VOTERS,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
}
"""Records of raft's own."""


def uuid_of(name: str, generation: int = 0) -> Uuid:
    """An id that follows from a name."""
    return Uuid(sha256(f"{name}/{generation}".encode()).digest()[:16])


def topic(name: str, *partitions: Sequence[int], generation: int = 0) -> list[Message]:
    """A topic with these replicas, all in sync, the first one leading. Another generation is another id."""
    made: list[Message] = [TopicRecord(name, uuid_of(name, generation))]
    for number, replicas in enumerate(partitions):
        found = tuple(replicas)
        made.append(PartitionRecord(number, uuid_of(name, generation), found, found, (), (), found[0], 0, 0, 0))
    return made


def removed(name: str, generation: int = 0) -> Message:
    """The end of a topic."""
    return RemoveTopicRecord(uuid_of(name, generation))


def change(name: str, partition_id: int = 0, generation: int = 0, **fields: object) -> Message:
    """A PartitionChangeRecord with these fields."""
    return PartitionChangeRecord(partition_id, uuid_of(name, generation), **fields)  # type: ignore[arg-type]


def config(topic_name: str | None, name: str, value: str | None) -> Message:
    """A config of a topic, or of all brokers."""
    kind, resource = (BROKER, "") if topic_name is None else (TOPIC, topic_name)
    return ConfigRecord(kind, resource, name, value)


def broker(
    broker_id: int,
    *,
    rack: str | None = None,
    fenced: bool = False,
    epoch: int = 1,
    levels: Ranges = LEVELS,
    log_dirs: Sequence[Uuid] = (),
    in_controlled_shutdown: bool = False,
) -> Message:
    """A broker's registration."""
    made = RegisterBrokerRecord.BrokerFeature
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=uuid_of(f"broker {broker_id}", epoch),
        broker_epoch=epoch,
        end_points=(),
        features=tuple(made(name, lowest, highest) for name, (lowest, highest) in levels.items()),
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=tuple(log_dirs),
    )


def brokers(*broker_ids: int) -> list[Message]:
    """Brokers that are there, each in a rack of its own."""
    return [broker(broker_id, rack=f"rack-{broker_id}") for broker_id in broker_ids]


def fenced(broker_id: int, epoch: int = 1) -> Message:
    """A broker whose session has ended."""
    return BrokerRegistrationChangeRecord(broker_id, epoch, fenced=1)


def unfenced(broker_id: int, epoch: int = 1) -> Message:
    """A broker that is back."""
    return BrokerRegistrationChangeRecord(broker_id, epoch, fenced=-1)


def controller(controller_id: int, levels: Ranges = LEVELS, *, incarnation: str = "first") -> Message:
    """A controller's registration."""
    made = RegisterControllerRecord.ControllerFeature
    return RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=uuid_of(f"controller {controller_id} {incarnation}"),
        features=tuple(made(name, lowest, highest) for name, (lowest, highest) in levels.items()),
    )


def feature(name: str, level: int) -> Message:
    """A finalized level."""
    return FeatureLevelRecord(name, level)


def voters(*voter_ids: int, without_directory: Iterable[int] = ()) -> Message:
    """A voter set."""
    unknown = set(without_directory)
    return VotersRecord(
        voters=tuple(
            VotersRecord.Voter(
                voter_id=voter_id,
                voter_directory_id=Uuid(bytes(16)) if voter_id in unknown else uuid_of(f"voter {voter_id}"),
                endpoints=(),
                k_raft_version_feature=VotersRecord.Voter.KRaftVersionFeature(0, 1),
            )
            for voter_id in voter_ids
        )
    )


Batch = tuple[int, int, tuple[Message, ...]]
"""When it was written, in ms; the epoch; the records."""


class _Voter(NamedTuple):
    """A voter's log, and the epoch that it is in."""

    node_id: int
    epoch: int
    batches: list[Batch]


class Story:
    """What happens to a cluster from noon on; each `say` is a batch."""

    def __init__(self, *records: Message) -> None:
        self._now_ms = NOON_MS
        self._epoch = 1
        self._batches: list[Batch] = []
        self._voters: list[_Voter] = []
        self.say(*records)

    def say(self, *records: Message) -> Story:
        """Records, now."""
        control = [record for record in records if type(record) in CONTROL]
        data = tuple(record for record in records if record not in control)
        self._batches += [(self._now_ms, self._epoch, part) for part in (tuple(control), data) if part]
        return self

    def led_by(self, node_id: int) -> Story:
        """A new epoch, now, that this node leads."""
        self._epoch += 1
        return self.say(LeaderChangeMessage(0, node_id, (), ()))

    def after(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Story:
        """Time goes by; backwards, if the next leader's clock is behind."""
        self._now_ms += round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
        return self

    def deposed(self, *records: Message, voted_since: int = 0) -> Story:
        """Voter 3 led until now and wrote these records alone; 1 leads the next epoch.

        Of three voters the other two have the whole log, and vote in an epoch that is so much later.
        """
        alone = [(self._now_ms, self._epoch, records)] if records else []
        self._voters.append(_Voter(3, self._epoch, [*self._batches, *alone]))
        self.led_by(1)
        self._voters += [_Voter(each, self._epoch + voted_since, self._batches) for each in (1, 2)]
        return self

    @property
    def end_ms(self) -> int:
        """When the last batch was written."""
        return self._batches[-1][0]

    def logged(self) -> list[Logged]:
        """The records with their offsets and times."""
        found = [(ms, record) for ms, _, records in self._batches for record in records]
        return [
            Logged(offset, ms, None if type(record) in CONTROL else record) for offset, (ms, record) in enumerate(found)
        ]

    def write(self, directory: Path, cluster_id: str) -> None:
        """A node's directory with the log; or the three voters', if one was deposed."""
        if not self._voters:
            segment(node(directory, cluster_id), _contents(self._batches))
        for voter in self._voters:
            place = directory / str(voter.node_id)
            partition = node(place, cluster_id)
            segment(partition, _contents(voter.batches))
            directory_id = uuid_text(uuid_of(f"voter {voter.node_id}"))
            properties = f"node.id={voter.node_id}\ndirectory.id={directory_id}\nversion=1\ncluster.id={cluster_id}\n"
            (place / META_PROPERTIES).write_text(properties)
            state = {"leaderId": -1, "leaderEpoch": voter.epoch, "votedId": -1, "data_version": 1}
            (partition / QUORUM_STATE).write_text(json.dumps(state))


def furnished() -> Story:
    """A cluster that has something of every history."""
    return Story(feature("metadata.version", 25), broker(1), *topic("orders", [1]), config("orders", "a", "b"))


def silver_of(spark: SparkSession, place: Path, stories: Mapping[str, Story]) -> InMemory:
    """The tables, with silver, of clusters that these stories happened to."""
    from services.pipeline import bronze
    from services.pipeline.silver import image

    # No table is without a row, whatever the stories have.
    for name, story in {**stories, FURNISHED: furnished()}.items():
        story.write(place / "logs" / name, name)
    tables = InMemory()
    bronze.ingest(spark.read.format("kraft").load(str(place / "logs")), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None
    image.build(records, None, tables)
    return tables


def silver_tables(spark: SparkSession, place: Path, stories: Mapping[str, Story]) -> Mapping[str, DataFrame]:
    """The histories and the events of clusters that these stories happened to, by name."""
    return silver_in(silver_of(spark, place, stories))


def silver_in(tables: Tables | InMemory) -> Mapping[str, DataFrame]:
    """The histories, the events and what deposed leaders wrote, by name."""
    from services.pipeline.silver.image import DEPOSED, HISTORIES

    found = {name: tables.read(f"silver/{name}") for name in (*HISTORIES, "events", DEPOSED)}
    return {name: table for name, table in found.items() if table is not None}


def below(silver: Mapping[str, DataFrame], offset: int) -> Mapping[str, DataFrame]:
    """The same tables as they would be if the logs ended at this offset."""
    return {name: _below(table, offset) for name, table in silver.items()}


def _below(table: DataFrame, offset: int) -> DataFrame:
    from pyspark.sql import functions as fn

    if "valid_from_offset" not in table.columns:
        return table.where(fn.col("offset") < offset)
    holds = fn.col("valid_to_offset") >= offset
    ends = ("valid_to_offset", "valid_to_time", "end_trace_id", "end_type")
    kept = {name: fn.when(~holds, fn.col(name)) for name in ends}
    return table.where(fn.col("valid_from_offset") < offset).withColumns(kept)


def _contents(batches: Sequence[Batch]) -> list[bytes]:
    content, offset = [], 0
    for ms, epoch, records in batches:
        content.append(_batch(offset, epoch, ms, records))
        offset += len(records)
    return content


def _batch(base_offset: int, epoch: int, timestamp_ms: int, records: Sequence[Message]) -> bytes:
    if type(records[0]) in CONTROL:
        values = [(CONTROL[type(record)], encode(record, 0)) for record in records]
        return control_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, records=values)
    contents = [encode_record(record, record_version(record, LATEST)) for record in records]
    return data_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, values=contents)
