"""Doctor findings about leftovers: configs and ACLs of topics or brokers that do not exist, expired tokens."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kraft import Message
from quorate.metadata.configs import BROKER, TOPIC
from quorate.records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    LeaderChangeMessage,
    RegisterControllerRecord,
    VotersRecord,
)
from services.pipeline.frames import struct_type
from services.pipeline.gold.doctor_rules import DAY_MS, INFO, DoctorRule, findings, listed, text
from services.pipeline.silver.present import Present

__all__ = ["access_findings"]

_ACL_TOPIC: Final = 2
_ACL_LITERAL: Final = 3
_EVERY: Final = "*"


def access_findings(now: Present, events: DataFrame) -> DataFrame:
    """Returns the findings about configs, ACLs and tokens that nothing uses; `events` say who votes."""
    return _configs(now, events).unionByName(_acls(now)).unionByName(_tokens(now))


def _configs(now: Present, events: DataFrame) -> DataFrame:
    """Finds resources that have configs but do not exist, one row a resource."""
    rows = now.configs.groupBy("cluster_id", "resource_type", "resource_name").agg(
        fn.array_sort(fn.collect_set("name")).alias("names"),
        fn.min("since_offset").alias("since_offset"),
        fn.min("since_time").alias("since_time"),
    )
    topics = now.topics.select(
        "cluster_id", fn.lit(TOPIC).alias("resource_type"), fn.col("name").alias("resource_name")
    )
    brokers = now.brokers.select(
        "cluster_id", fn.lit(BROKER).alias("resource_type"), fn.col("broker_id").cast("string").alias("resource_name")
    )
    number = fn.from_json("payload", struct_type(RegisterControllerRecord))["controllerId"]
    controllers = now.kept.where("kind = 'controller'").select(
        "cluster_id", fn.lit(BROKER).alias("resource_type"), number.cast("string").alias("resource_name")
    )
    # KIP-919: controllers have configs of this type, too; below metadata.version 15 they do not register.
    there = topics.unionByName(brokers).unionByName(controllers).unionByName(_voters(now, events))
    named = rows.where(fn.col("resource_type").isin(TOPIC, BROKER) & (fn.col("resource_name") != ""))
    unknown = named.join(there, ["cluster_id", "resource_type", "resource_name"], "left_anti")
    kind = fn.when(fn.col("resource_type") == TOPIC, "topic ").otherwise("broker ")
    rule = DoctorRule(
        INFO,
        "CONFIG_OF_NOTHING",
        fn.lit(True),
        text("there is none of that name, and it has configs: ", listed("names")),
        _delete(),
    )
    return findings(unknown, text(kind, fn.col("resource_name")), [rule])


def _delete() -> Column:
    delete = "delete them: kafka-configs --alter --delete-config; whoever takes the name gets them"
    sure = fn.lit("if no node has this id (a controller that does not vote may not be registered), ")
    return fn.concat(fn.when(fn.col("resource_type") == BROKER, sure).otherwise(""), fn.lit(delete))


def _voters(now: Present, events: DataFrame) -> DataFrame:
    """Returns the voters as resources: of the voter set, or of the last election where there is none (KIP-853)."""
    of_set = now.kept.where("kind = 'voters'").select("cluster_id", "payload")
    elected = events.where("type = 'LEADER_CHANGE'").groupBy("cluster_id")
    last = elected.agg(fn.max_by("payload", "offset").alias("payload"))
    records = ((of_set, VotersRecord), (last, LeaderChangeMessage))
    ids = (
        rows.select("cluster_id", fn.explode(_parsed(record)["voters"]["voterId"]).alias("id"))
        for rows, record in records
    )
    return reduce(DataFrame.unionByName, ids).select(
        "cluster_id", fn.lit(BROKER).alias("resource_type"), fn.col("id").cast("string").alias("resource_name")
    )


def _parsed(record: type[Message]) -> Column:
    return fn.from_json("payload", struct_type(record))


def _acls(now: Present) -> DataFrame:
    """Finds LITERAL ACLs of topics that do not exist, one row an entry."""
    payload = fn.from_json("payload", struct_type(AccessControlEntryRecord))
    rows = now.kept.where("kind = 'acl'").withColumn("r", payload).withColumn("name", fn.col("r.resourceName"))
    literal = (fn.col("r.resourceType") == _ACL_TOPIC) & (fn.col("r.patternType") == _ACL_LITERAL)
    rows = rows.where(literal & (fn.col("name") != _EVERY))
    rows = rows.join(now.topics.select("cluster_id", "name"), ["cluster_id", "name"], "left_anti")
    rule = DoctorRule(
        INFO,
        "ACL_OF_NO_TOPIC",
        fn.lit(True),
        text("is about topic ", fn.col("name"), ", which there is not, and principal ", fn.col("r.principal")),
        "remove it, unless the topic is to come: kafka-acls --remove",
    )
    return findings(rows, text("acl ", fn.col("r.id")), [rule])


def _tokens(now: Present) -> DataFrame:
    """Finds delegation tokens that have expired and that no controller has removed."""
    payload = fn.from_json("payload", struct_type(DelegationTokenRecord))
    rows = now.kept.where("kind = 'delegation_token'").withColumn("r", payload)
    # As doubles: the difference of two bigints may be none.
    ago_ms = fn.unix_millis("as_of_time").cast("double") - fn.col("r.expirationTimestamp").cast("double")
    rows = rows.join(fn.broadcast(now.at), "cluster_id").withColumn("days_ago", ago_ms / DAY_MS)
    rule = DoctorRule(
        INFO,
        "TOKEN_EXPIRED",
        fn.col("days_ago") > 0,
        text("expired ", fn.round("days_ago", 1), " days ago; owner ", fn.col("r.owner")),
        "see why the active controller does not remove it: delegation.token.expiry.check.interval.ms",
    )
    return findings(rows, text("delegation token ", fn.col("r.tokenId")), [rule])
