"""Histories of things that one record states completely: features, controllers, quotas, ACLs, credentials, voters.

All are in one table, `kept`: a kind, a key within the kind, and the payload that held. Lists that are maps in Kafka are
sorted, so that equal values have equal text.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kraft import Message
from quorate.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from quorate.wire.json_names import type_name
from services.pipeline.frames import struct_type
from services.pipeline.silver.brokers import by_name
from services.pipeline.silver.validity import SPAN, by_key, ended

__all__ = ["KINDS", "UNKNOWN_KIND", "feature_history", "kept_history", "voter_history"]

UNKNOWN_KIND: Final = "unknown"


class RecordKind(NamedTuple):
    """A kind of state: the record that sets it, the record that removes it (or None), and its key fields."""

    name: str
    sets: type[Message]
    removes: type[Message] | None
    key: tuple[str, ...]


KINDS: Final = (
    RecordKind("feature", FeatureLevelRecord, None, ("name",)),
    RecordKind("controller", RegisterControllerRecord, UnregisterControllerRecord, ("controllerId",)),
    RecordKind("client_quota", ClientQuotaRecord, None, ("entity", "key")),
    RecordKind("producer_ids", ProducerIdsRecord, None, ()),
    RecordKind("acl", AccessControlEntryRecord, RemoveAccessControlEntryRecord, ("id",)),
    RecordKind("scram", UserScramCredentialRecord, RemoveUserScramCredentialRecord, ("name", "mechanism")),
    RecordKind("delegation_token", DelegationTokenRecord, RemoveDelegationTokenRecord, ("tokenId",)),
    RecordKind("zk_migration_state", ZkMigrationStateRecord, None, ()),
)
_CONTROL: Final = {"voters": "KRAFT_VOTERS", "kraft_version": "KRAFT_VERSION"}
_NAMES: Final = (UNKNOWN_KIND, *(kind.name for kind in KINDS), *_CONTROL)
assert len(_NAMES) == len(set(_NAMES)), _NAMES
_QUORUM_FEATURE: Final = "kraft.version"
"""The quorum stores this feature in control records; a FeatureLevelRecord of it has no meaning. KIP-853."""
_AT: Final = ("cluster_id", "offset", "timestamp", "type", "trace_id")


def kept_history(events: DataFrame) -> DataFrame:
    """Builds the table `kept`: `kind`, `key` (JSON), `type`, `version`, `payload`, and `raw` for unknown records."""
    rows = _of_unknown(events)
    for kind in KINDS:
        rows = rows.unionByName(_of_kind(events, kind))
    for name, control in _CONTROL.items():
        rows = rows.unionByName(_of_control(events, name, control))
    spans = ended(rows, by_key(["kind", "key"]), fn.col("removed"))
    return spans.select("cluster_id", "kind", "key", "type", "version", "payload", "raw", *SPAN)


def feature_history(kept: DataFrame) -> DataFrame:
    """Extracts the finalized level of each feature, as a history."""
    level = fn.get_json_object("payload", "$.featureLevel").cast("int")
    named = fn.get_json_object("payload", "$.name")
    rows = kept.where("kind = 'feature'")
    return rows.select("cluster_id", named.alias("name"), level.alias("level"), *SPAN)


def voter_history(kept: DataFrame) -> DataFrame:
    """Extracts the voter sets, each as the payload of its VotersRecord."""
    return kept.where("kind = 'voters'").select("cluster_id", "payload", *SPAN)


def _of_kind(events: DataFrame, kind: RecordKind) -> DataFrame:
    types = [type_name(record) for record in (kind.sets, kind.removes) if record is not None]
    records = [record for record in (kind.sets, kind.removes) if record is not None]
    rows = events.where(fn.col("type").isin(types)).withColumn("r", fn.from_json("payload", struct_type(*records)))
    removed = fn.col("type") != types[0]
    payload = fn.col("payload")
    key = [fn.col(f"r.{name}").alias(name) for name in kind.key]
    if kind.sets is FeatureLevelRecord:
        rows = rows.where(fn.col("r.name") != _QUORUM_FEATURE)
        removed = fn.col("r.featureLevel") == 0
    elif kind.sets is ClientQuotaRecord:
        rows = rows.withColumn("r", fn.col("r").withField("entity", fn.array_sort("r.entity")))
        removed, payload = fn.coalesce("r.remove", fn.lit(False)), _text(fn.col("r"))
    elif kind.sets is ProducerIdsRecord:
        # The state, and so a checkpoint, does not say which broker got the last block.
        nobody = fn.col("r").withField("brokerId", fn.lit(-1)).withField("brokerEpoch", fn.lit(-1))
        payload = _text(nobody)
    elif kind.sets is RegisterControllerRecord:
        sorted_ = fn.col("r").withField("endPoints", by_name(fn.col("r.endPoints")))
        payload = _text(sorted_.withField("features", by_name(fn.col("r.features"))))
    return rows.select(
        *_AT,
        fn.lit(kind.name).alias("kind"),
        (_text(fn.struct(*key)) if key else fn.lit("{}")).alias("key"),
        "version",
        payload.alias("payload"),
        fn.lit(None).cast("binary").alias("raw"),
        removed.alias("removed"),
    )


def _of_control(events: DataFrame, name: str, control: str) -> DataFrame:
    return _plain(events.where(fn.col("type") == control), name, fn.lit("{}"), fn.lit(None).cast("binary"))


def _of_unknown(events: DataFrame) -> DataFrame:
    """Returns each unknown record as a state of its own that is never removed, because its meaning is not known."""
    rows = events.where("type = 'UNKNOWN_RECORD'")
    place = fn.format_string('{"offset":%d}', "offset")
    key = fn.when(fn.col("is_base"), fn.concat(place, fn.base64("raw"))).otherwise(place)
    return _plain(rows, UNKNOWN_KIND, key, fn.col("raw"))


def _plain(rows: DataFrame, kind: str, key: Column, raw: Column) -> DataFrame:
    return rows.select(
        *_AT,
        fn.lit(kind).alias("kind"),
        key.alias("key"),
        "version",
        "payload",
        raw.alias("raw"),
        fn.lit(False).alias("removed"),
    )


def _text(value: Column) -> Column:
    return fn.to_json(value, {"ignoreNullFields": "false"})
