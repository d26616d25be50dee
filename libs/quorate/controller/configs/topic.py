"""What can be configured of a topic: name, values, default, and which broker config stands in for it.

The table is Kafka 4.4's `LogConfig`; a test asks a released Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from quorate.controller.configs import broker
from quorate.controller.configs.values import (
    LONG_MAX,
    Set,
    Source,
    Values,
    ValueType,
    boolean,
    decimal,
    gzip_level,
    integer,
    is_true,
    items,
    list_of,
    long,
    one_of,
    whole,
)
from quorate.metadata.configs import BROKER, NOTHING_SET, Configs

__all__ = [
    "CONFIGS",
    "MIN_INSYNC_REPLICAS",
    "UNCLEAN_ELECTION",
    "Effective",
    "Items",
    "TopicConfig",
    "all_effective",
    "candidates",
    "effective",
    "faults",
]

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
REMOTE_STORAGE_SYSTEM: Final = "remote.log.storage.system.enable"
"""The brokers' config without which no topic has tiered storage. KIP-405."""


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that counts, and where it comes from."""

    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One config. `synonyms` are the broker configs that stand in for it, the first one first, and how many of our
    units one of theirs is."""

    name: str
    values: Values
    default: str
    synonyms: tuple[tuple[str, int], ...] = ()


def effective(
    config: TopicConfig, *, topic: Mapping[str, str], configs: Configs, static: Mapping[str, str]
) -> Effective:
    """The topic's own value, the cluster's, the file's or the default, in this order. KIP-226, KIP-525.

    `topic` is what is set on the topic; `static` are broker configs by Kafka's names.
    """
    return _first(config, topic, _inherited(configs, static))


Items: TypeAlias = tuple[tuple[str, str], ...]
"""Configs that are set, by name: most topics have the same, so what follows from them is kept for the next."""


@lru_cache(maxsize=256)
def all_effective(topic: Items, cluster: Items, static: Items) -> Mapping[str, Effective]:
    """`effective` of every config, by name: of what is set on the topic, for all brokers, and in the file."""
    inherited = ((dict(cluster), Source.CLUSTER), (dict(static), Source.STATIC))
    return {name: _first(config, dict(topic), inherited) for name, config in CONFIGS.items()}


def _first(
    config: TopicConfig, topic: Mapping[str, str], inherited: tuple[tuple[Mapping[str, str], Source], ...]
) -> Effective:
    if config.name in topic:
        return Effective(topic[config.name], Source.TOPIC)
    for values, source in inherited:
        for synonym, factor in config.synonyms:
            if synonym in values and _is_readable(config, values[synonym], factor):
                return Effective(_scaled(values[synonym], factor), source)
    return Effective(config.default, Source.DEFAULT)


def candidates(
    config: TopicConfig, *, topic: Mapping[str, str], configs: Configs, static: Mapping[str, str]
) -> Iterator[Set]:
    """What DescribeConfigs tells of a topic's config: its own value, and those of the broker config that stands in.

    As Kafka tells it (KIP-226), so it may be nothing though there is a value: where no broker config stands in, and
    where a broker has it in another unit only (`log.retention.hours`), there is neither a default nor a source.
    """
    if config.name in topic:
        yield Set(config.name, topic[config.name], Source.TOPIC)
    if config.synonyms:
        first, _ = config.synonyms[0]
        yield from broker.candidates(first, own=NOTHING_SET, cluster=configs.of(BROKER, ""), static=static)


def faults(
    values: Mapping[str, str],
    *,
    configs: Configs,
    static: Mapping[str, str],
    before: Mapping[str, str] = NOTHING_SET,
) -> list[str]:
    """What is wrong with a topic that has these configs set, one sentence each; empty if Kafka would take them.

    `before` is what was set on it until now; `configs` and `static` say what stands in for the configs not set.
    """
    cluster = configs.of(BROKER, "")
    return list(_faults(tuple(values.items()), tuple(cluster.items()), tuple(static.items()), tuple(before.items())))


@lru_cache(maxsize=256)
def _faults(topic: Items, cluster: Items, static: Items, before: Items) -> tuple[str, ...]:
    """As `all_effective`, most topics have the same."""
    found = []
    for name, value in topic:
        config = CONFIGS.get(name)
        if config is None:
            found.append(f"{name!r} is no topic config")
        elif not config.values.takes(value):
            found.append(f"{name}={value!r}: it takes {config.values.rule}")
    if found:
        return tuple(found)

    counting = all_effective(topic, cluster, static)

    def counts(name: str) -> str:
        return counting[name].value

    return (*_lags(counts), *_tiered(counts, dict(before), dict(static)))


_Counts: TypeAlias = Callable[[str], str]
"""The value that counts for a topic, by the config's name."""


def _lags(counts: _Counts) -> Iterator[str]:
    least, most = (whole(counts(name)) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if least > most:
        yield f"min.compaction.lag.ms={least} is above max.compaction.lag.ms={most}"


def _tiered(counts: _Counts, before: Mapping[str, str], static: Mapping[str, str]) -> Iterator[str]:
    """What tiered storage asks of a topic. KIP-405, KIP-950."""
    if not is_true(counts("remote.storage.enable")):
        if is_true(before.get("remote.storage.enable", "")) and not is_true(counts("remote.log.delete.on.disable")):
            yield (
                "remote.storage.enable=false: it goes from true to false only with remote.log.delete.on.disable=true, "
                "as nobody would delete the remote log; remote.log.copy.disable=true keeps it to be read"
            )
        return
    if not is_true(static.get(REMOTE_STORAGE_SYSTEM, "")):
        yield f"remote.storage.enable=true: the brokers have no tiered storage, {REMOTE_STORAGE_SYSTEM} is not true"
    if items(counts("cleanup.policy")) not in ([], ["delete"]):
        yield f"remote.storage.enable=true: cleanup.policy={counts('cleanup.policy')!r} is not delete, and not empty"
    for unit, unlimited in (("bytes", _AT_MOST_MINUS_ONE), ("ms", _MINUS_ONE)):
        yield from _retentions(unit, unlimited, counts)


def _retentions(unit: str, unlimited: range, counts: _Counts) -> Iterator[str]:
    """The local log is a part of the whole one; -2 says: as long as the whole."""
    total, local, lag = (
        whole(counts(f"{name}.{unit}")) for name in ("retention", "local.retention", "remote.copy.lag")
    )
    kept = total if local == -2 else local
    if 0 <= kept < lag:
        yield f"remote.copy.lag.{unit}={lag}: after {kept} the local log is gone, before it is copied"
    if local == -2:
        return
    if total not in unlimited and (local == -1 or local > total):
        yield f"local.retention.{unit}={local} is above retention.{unit}={total}; -1 is without end"
    if is_true(counts("remote.log.copy.disable")) and local != total:
        yield (
            f"local.retention.{unit}={local} is not retention.{unit}={total}: with remote.log.copy.disable=true "
            "nothing more is copied away, so they are equal, or the local one is -2"
        )


def _inherited(configs: Configs, static: Mapping[str, str]) -> tuple[tuple[Mapping[str, str], Source], ...]:
    return (configs.of(BROKER, ""), Source.CLUSTER), (static, Source.STATIC)


def _is_readable(config: TopicConfig, value: str, factor: int) -> bool:
    """Kafka's controllers write of brokers what they are told; its brokers leave out what they cannot read."""
    if factor != 1 and not long().takes(value):
        return False
    return config.values.takes(_scaled(value, factor))


def _scaled(value: str, factor: int) -> str:
    return value if factor == 1 else str(whole(value) * factor)


_MINUS_ONE: Final = range(-1, 0)
_AT_MOST_MINUS_ONE: Final = range(-LONG_MAX - 1, 0)
_THROTTLED: Final = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled() -> Values:
    def takes(text: str) -> bool:
        parts = items(text)
        return "".join(parts) == "*" or all(not part or _THROTTLED.fullmatch(part) for part in parts)

    return Values(ValueType.LIST, "'*', or a list of partition:broker", takes)


def _config(name: str, values: Values, default: object, *synonyms: str | tuple[str, int]) -> TopicConfig:
    paired = tuple((synonym, 1) if isinstance(synonym, str) else synonym for synonym in synonyms)
    return TopicConfig(name, values, str(default), paired)


_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_WEEK: Final = 168 * _HOUR
_ARRAY_MAX: Final = 2_147_483_639
"""The longest array that every JVM makes."""

CONFIGS: Final[Mapping[str, TopicConfig]] = {
    config.name: config
    for config in (
        _config("cleanup.policy", list_of("compact", "delete"), "delete", "log.cleanup.policy"),
        _config("compression.gzip.level", gzip_level(), -1, "compression.gzip.level"),
        _config("compression.lz4.level", integer(1, 17), 9, "compression.lz4.level"),
        _config(
            "compression.type",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "producer",
            "compression.type",
        ),
        _config("compression.zstd.level", integer(-131_072, 22), 3, "compression.zstd.level"),
        _config("delete.retention.ms", long(0), 24 * _HOUR, "log.cleaner.delete.retention.ms"),
        _config("errors.deadletterqueue.group.enable", boolean(), "false"),
        _config("file.delete.delay.ms", long(0), _MINUTE, "log.segment.delete.delay.ms"),
        _config("flush.messages", long(1), LONG_MAX, "log.flush.interval.messages"),
        _config("flush.ms", long(0), LONG_MAX, "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        _config("follower.replication.throttled.replicas", _throttled(), ""),
        _config("index.interval.bytes", integer(0), 4_096, "log.index.interval.bytes"),
        _config("leader.replication.throttled.replicas", _throttled(), ""),
        _config("local.retention.bytes", long(-2), -2, "log.local.retention.bytes"),
        _config("local.retention.ms", long(-2), -2, "log.local.retention.ms"),
        _config("max.compaction.lag.ms", long(1), LONG_MAX, "log.cleaner.max.compaction.lag.ms"),
        _config("max.decompressed.message.bytes", integer(1, _ARRAY_MAX), _ARRAY_MAX, "max.decompressed.message.bytes"),
        _config("max.message.bytes", integer(0), 1_048_588, "message.max.bytes"),
        _config("message.timestamp.after.max.ms", long(0), _HOUR, "log.message.timestamp.after.max.ms"),
        _config("message.timestamp.before.max.ms", long(0), LONG_MAX, "log.message.timestamp.before.max.ms"),
        _config(
            "message.timestamp.type", one_of("CreateTime", "LogAppendTime"), "CreateTime", "log.message.timestamp.type"
        ),
        _config("min.cleanable.dirty.ratio", decimal(0, 1), 0.5, "log.cleaner.min.cleanable.ratio"),
        _config("min.compaction.lag.ms", long(0), 0, "log.cleaner.min.compaction.lag.ms"),
        _config(MIN_INSYNC_REPLICAS, integer(1), 1, MIN_INSYNC_REPLICAS),
        _config("preallocate", boolean(), "false", "log.preallocate"),
        _config("remote.copy.lag.bytes", long(-1), -1, "log.remote.copy.lag.bytes"),
        _config("remote.copy.lag.ms", long(-1), 0, "log.remote.copy.lag.ms"),
        _config("remote.log.copy.disable", boolean(), "false"),
        _config("remote.log.delete.on.disable", boolean(), "false"),
        _config("remote.storage.enable", boolean(), "false"),
        _config("retention.bytes", long(), -1, "log.retention.bytes"),
        _config(
            "retention.ms",
            long(-1),
            _WEEK,
            "log.retention.ms",
            ("log.retention.minutes", _MINUTE),
            ("log.retention.hours", _HOUR),
        ),
        _config("segment.bytes", integer(1 << 20), 1 << 30, "log.segment.bytes"),
        _config("segment.index.bytes", integer(4), 10 << 20, "log.index.size.max.bytes"),
        _config("segment.jitter.ms", long(0), 0, "log.roll.jitter.ms", ("log.roll.jitter.hours", _HOUR)),
        _config("segment.ms", long(1), _WEEK, "log.roll.ms", ("log.roll.hours", _HOUR)),
        _config(UNCLEAN_ELECTION, boolean(), "false", UNCLEAN_ELECTION),
    )
}
"""By name, sorted. Kafka's `internal.segment.bytes`, for its own tests, is left out."""

assert list(CONFIGS) == sorted(CONFIGS), list(CONFIGS)
