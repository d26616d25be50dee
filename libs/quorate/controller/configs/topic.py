"""Topic configs: valid values, defaults, and the broker configs from which a topic inherits a value.

The table follows Kafka 4.4's `LogConfig`; a test compares it with a Kafka release.
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
"""The broker config that must be true before any topic can have tiered storage. KIP-405."""


@dataclass(frozen=True, slots=True)
class Effective:
    """The effective value of a config, and its source."""

    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic config and the broker configs (`synonyms`) that it inherits from, in this order.

    Each synonym has the factor that converts its unit to this config's, such as minutes to ms. `internal` configs are
    for Kafka's own tests: they have no default, and are described only if they are set.
    """

    name: str
    values: Values
    default: str | None
    synonyms: tuple[tuple[str, int], ...] = ()

    @property
    def internal(self) -> bool:
        return self.default is None


def effective(
    config: TopicConfig, *, topic: Mapping[str, str], configs: Configs, static: Mapping[str, str]
) -> Effective:
    """Returns the effective value: the topic's own, else the cluster's, the file's or the default. KIP-226, KIP-525.

    `topic` has the configs set on the topic; `static` has broker configs from the file, by Kafka's names.
    """
    return _first(config, topic, _inherited(configs.of(BROKER, ""), static))


Items: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs (name, value) of configs that are set; hashable, as results are cached: most topics have the same configs."""


@lru_cache(maxsize=256)
def all_effective(topic: Items, cluster: Items, static: Items) -> Mapping[str, Effective]:
    """Returns the effective values of all topic configs, by name; of internal ones only those set on the topic.

    `topic` is set on the topic, `cluster` for all brokers, `static` in the file: the last two by broker config names.
    """
    of_topic, inherited = dict(topic), _inherited(dict(cluster), dict(static))
    return {
        name: _first(config, of_topic, inherited)
        for name, config in CONFIGS.items()
        if name in of_topic or not config.internal
    }


def _first(
    config: TopicConfig, topic: Mapping[str, str], inherited: tuple[tuple[Mapping[str, str], Source], ...]
) -> Effective:
    if config.name in topic:
        return Effective(topic[config.name], Source.TOPIC)
    for values, source in inherited:
        for synonym, factor in config.synonyms:
            if synonym in values and _is_readable(config, values[synonym], factor):
                return Effective(_scaled(values[synonym], factor), source)
    assert config.default is not None, config
    return Effective(config.default, Source.DEFAULT)


def candidates(
    config: TopicConfig, *, topic: Mapping[str, str], configs: Configs, static: Mapping[str, str]
) -> Iterator[Set]:
    """Yields what DescribeConfigs lists as synonyms: the topic's own value, then those of the config's broker config.

    As in Kafka (KIP-226), the list may be empty though there is an effective value: if the config has no broker config,
    or if that is set only in another unit (`log.retention.hours`), neither default nor source is listed.
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
    """Returns what is wrong with these topic configs, one sentence each; empty if Kafka accepts them.

    `before` is what was set on the topic until now; `configs` and `static` give the effective values of unset configs.
    """
    cluster = configs.of(BROKER, "")
    return list(_faults(tuple(values.items()), tuple(cluster.items()), tuple(static.items()), tuple(before.items())))


@lru_cache(maxsize=256)
def _faults(topic: Items, cluster: Items, static: Items, before: Items) -> tuple[str, ...]:
    """Computes `faults` from hashable pairs; cached, since most topics have the same configs."""
    found = []
    for name, value in topic:
        config = CONFIGS.get(name)
        if config is None:
            found.append(f"{name!r} is no topic config")
        elif not config.values.takes(value):
            found.append(f"{name}={value!r}: it must be {config.values.rule}")
    if found:
        return tuple(found)

    # Most topics that are changed at once differ, so only what is asked for is looked up: three of them as a rule.
    of_topic, inherited = dict(topic), _inherited(dict(cluster), dict(static))

    def counts(name: str) -> str:
        return _first(CONFIGS[name], of_topic, inherited).value

    return (*_lags(counts), *_tiered(counts, dict(before), dict(static)))


_Counts: TypeAlias = Callable[[str], str]
"""Returns the effective value of a topic config by name."""


def _lags(counts: _Counts) -> Iterator[str]:
    least, most = (whole(counts(name)) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if least > most:
        yield f"min.compaction.lag.ms={least} is above max.compaction.lag.ms={most}"


def _tiered(counts: _Counts, before: Mapping[str, str], static: Mapping[str, str]) -> Iterator[str]:
    """Yields faults of the configs for tiered storage. KIP-405, KIP-950."""
    if not is_true(counts("remote.storage.enable")):
        if is_true(before.get("remote.storage.enable", "")) and not is_true(counts("remote.log.delete.on.disable")):
            yield (
                "remote.storage.enable=false: it goes from true to false only with remote.log.delete.on.disable=true, "
                "as nobody would delete the remote log; remote.log.copy.disable=true keeps it to be read"
            )
        return
    if not is_true(static.get(REMOTE_STORAGE_SYSTEM, "")):
        yield f"remote.storage.enable=true: the brokers have no tiered storage: {REMOTE_STORAGE_SYSTEM} is not true"
    if items(counts("cleanup.policy")) not in ([], ["delete"]):
        yield f"remote.storage.enable=true: cleanup.policy={counts('cleanup.policy')!r} is not delete, and not empty"
    for unit, unlimited in (("bytes", _AT_MOST_MINUS_ONE), ("ms", _MINUS_ONE)):
        yield from _retentions(unit, unlimited, counts)


def _retentions(unit: str, unlimited: range, counts: _Counts) -> Iterator[str]:
    """Yields faults of local and total retention; a local retention of -2 means the total one."""
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


def _inherited(cluster: Mapping[str, str], static: Mapping[str, str]) -> tuple[tuple[Mapping[str, str], Source], ...]:
    return (cluster, Source.CLUSTER), (static, Source.STATIC)


def _is_readable(config: TopicConfig, value: str, factor: int) -> bool:
    """Returns whether a broker config's value is valid for the topic config; like Kafka's brokers, we ignore others."""
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
    return TopicConfig(name, values, None if default is None else str(default), paired)


_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_WEEK: Final = 168 * _HOUR
_ARRAY_MAX: Final = 2_147_483_639
"""The longest array, in bytes, that every JVM can allocate."""

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
        _config("internal.segment.bytes", integer(), None),
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
"""All topic configs by name, sorted."""

assert list(CONFIGS) == sorted(CONFIGS), list(CONFIGS)
for _each in CONFIGS.values():
    assert _each.default is None or _each.values.takes(_each.default), _each
    for _synonym, _factor in _each.synonyms:
        assert broker.config_of(_synonym) is not None, f"no broker config: {_synonym}"
        assert _factor >= 1, _each
    if _each.synonyms:
        (_first_synonym, _first_factor), *_ = _each.synonyms
        assert _first_factor == 1, f"the first has this config's unit, as it is listed as it is: {_each}"
        assert broker.default_of(_first_synonym) in (None, _each.default), f"brokers have another default: {_each}"
assert broker.config_of(REMOTE_STORAGE_SYSTEM) is not None, REMOTE_STORAGE_SYSTEM
