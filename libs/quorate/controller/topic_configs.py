"""What can be configured of a topic: name, type, range, default, and which broker config stands in for it.

The table is Kafka 4.4's `LogConfig`; a test asks a released Kafka. Values stay text, as in the log: here is only
said which texts are values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from quorate.metadata.configs import BROKER, Configs

__all__ = [
    "CONFIGS",
    "MIN_INSYNC_REPLICAS",
    "UNCLEAN_ELECTION",
    "Effective",
    "Source",
    "TopicConfig",
    "effective",
    "faults",
]

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class Source(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it. KIP-226."""

    TOPIC = 1
    CLUSTER = 3
    """Set at run time for all brokers."""
    STATIC = 4
    """From the configuration file."""
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that counts, and where it comes from."""

    value: str
    source: Source


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One config. `rule` says in words what `takes` checks.

    `synonyms` are the broker configs that stand in for it, and how many of our units one of theirs is.
    """

    name: str
    default: str
    rule: str
    takes: Callable[[str], bool]
    synonyms: tuple[tuple[str, int], ...] = ()


def effective(
    config: TopicConfig, *, topic: Mapping[str, str], configs: Configs, static: Mapping[str, str]
) -> Effective:
    """The topic's own value, the cluster's, the file's or the default, in this order. KIP-226, KIP-525.

    `topic` is what is set on the topic; `static` are broker configs by Kafka's names.
    """
    if config.name in topic:
        return Effective(topic[config.name], Source.TOPIC)
    for values, source in ((configs.of(BROKER, ""), Source.CLUSTER), (static, Source.STATIC)):
        for synonym, factor in config.synonyms:
            if synonym in values:
                return Effective(_scaled(values[synonym], factor), source)
    return Effective(config.default, Source.DEFAULT)


def faults(values: Mapping[str, str]) -> list[str]:
    """What is wrong with these topic configs, one sentence each; empty if Kafka would take them."""
    found = []
    for name, value in values.items():
        config = CONFIGS.get(name)
        if config is None:
            found.append(f"{name!r} is no topic config")
        elif not config.takes(value):
            found.append(f"{name}={value!r}: it takes {config.rule}")
    return found or _contradictions(values)


def _contradictions(values: Mapping[str, str]) -> list[str]:
    lags = [int(values.get(name, CONFIGS[name].default)) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")]
    if lags[0] <= lags[1]:
        return []
    return [f"min.compaction.lag.ms={lags[0]} is above max.compaction.lag.ms={lags[1]}"]


def _scaled(value: str, factor: int) -> str:
    return value if factor == 1 else str(int(value) * factor)


# How Java reads a value: blanks around it do not count, a sign may stand before a number, underscores may not.

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_THROTTLED: Final = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _integer(name: str, default: int, low: int, high: int, *synonyms: str | tuple[str, int]) -> TopicConfig:
    def takes(text: str) -> bool:
        return _INTEGER.fullmatch(text.strip()) is not None and low <= int(text.strip()) <= high

    return TopicConfig(name, str(default), f"a whole number from {low} to {high}", takes, _paired(synonyms))


def _int(name: str, default: int, low: int, *synonyms: str | tuple[str, int], high: int = _INT_MAX) -> TopicConfig:
    return _integer(name, default, low, high, *synonyms)


def _long(name: str, default: int, low: int, *synonyms: str | tuple[str, int]) -> TopicConfig:
    return _integer(name, default, low, _LONG_MAX, *synonyms)


def _boolean(name: str, *synonyms: str) -> TopicConfig:
    return TopicConfig(
        name, "false", "true or false", lambda text: text.strip().lower() in ("true", "false"), _paired(synonyms)
    )


def _one_of(name: str, default: str, allowed: tuple[str, ...], *synonyms: str) -> TopicConfig:
    return TopicConfig(
        name, default, "one of " + ", ".join(allowed), lambda text: text.strip() in allowed, _paired(synonyms)
    )


def _list_of(name: str, default: str, allowed: tuple[str, ...], *synonyms: str) -> TopicConfig:
    def takes(text: str) -> bool:
        return all(part in allowed for part in _parts(text))

    return TopicConfig(name, default, "a list of " + ", ".join(allowed), takes, _paired(synonyms))


def _ratio(name: str, default: str, *synonyms: str) -> TopicConfig:
    def takes(text: str) -> bool:
        if _DECIMAL.fullmatch(text.strip()) is None:
            return False
        number = float(text.strip().rstrip("fFdD"))
        return math.isnan(number) or 0 <= number <= 1  # to Java, NaN is not outside of any range

    return TopicConfig(name, default, "a number from 0 to 1", takes, _paired(synonyms))


def _throttled(name: str) -> TopicConfig:
    def takes(text: str) -> bool:
        parts = _parts(text)
        return parts == ["*"] or not any(parts) or all(_THROTTLED.fullmatch(part) for part in parts)

    return TopicConfig(name, "", "'*', or a list of partition:broker", takes)


def _gzip_level() -> TopicConfig:
    name = "compression.gzip.level"

    def takes(text: str) -> bool:
        return _INTEGER.fullmatch(text.strip()) is not None and int(text) in (-1, *range(1, 10))

    return TopicConfig(name, "-1", "a whole number from 1 to 9, or -1", takes, ((name, 1),))


def _parts(text: str) -> list[str]:
    return re.split(r"\s*,\s*", text.strip()) if text.strip() else []


def _paired(synonyms: tuple[str | tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return tuple((synonym, 1) if isinstance(synonym, str) else synonym for synonym in synonyms)


_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_WEEK: Final = 168 * _HOUR

CONFIGS: Final[Mapping[str, TopicConfig]] = {
    config.name: config
    for config in (
        _list_of("cleanup.policy", "delete", ("compact", "delete"), "log.cleanup.policy"),
        _gzip_level(),
        _int("compression.lz4.level", 9, 1, "compression.lz4.level", high=17),
        _one_of(
            "compression.type",
            "producer",
            ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "compression.type",
        ),
        _int("compression.zstd.level", 3, -131_072, "compression.zstd.level", high=22),
        _long("delete.retention.ms", 24 * _HOUR, 0, "log.cleaner.delete.retention.ms"),
        _boolean("errors.deadletterqueue.group.enable"),
        _long("file.delete.delay.ms", _MINUTE, 0, "log.segment.delete.delay.ms"),
        _long("flush.messages", _LONG_MAX, 1, "log.flush.interval.messages"),
        _long("flush.ms", _LONG_MAX, 0, "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        _throttled("follower.replication.throttled.replicas"),
        _int("index.interval.bytes", 4_096, 0, "log.index.interval.bytes"),
        _throttled("leader.replication.throttled.replicas"),
        _long("local.retention.bytes", -2, -2, "log.local.retention.bytes"),
        _long("local.retention.ms", -2, -2, "log.local.retention.ms"),
        _long("max.compaction.lag.ms", _LONG_MAX, 1, "log.cleaner.max.compaction.lag.ms"),
        _int("max.decompressed.message.bytes", 2_147_483_639, 1, "max.decompressed.message.bytes", high=2_147_483_639),
        _int("max.message.bytes", 1_048_588, 0, "message.max.bytes"),
        _long("message.timestamp.after.max.ms", _HOUR, 0, "log.message.timestamp.after.max.ms"),
        _long("message.timestamp.before.max.ms", _LONG_MAX, 0, "log.message.timestamp.before.max.ms"),
        _one_of("message.timestamp.type", "CreateTime", ("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
        _ratio("min.cleanable.dirty.ratio", "0.5", "log.cleaner.min.cleanable.ratio"),
        _long("min.compaction.lag.ms", 0, 0, "log.cleaner.min.compaction.lag.ms"),
        _int(MIN_INSYNC_REPLICAS, 1, 1, MIN_INSYNC_REPLICAS),
        _boolean("preallocate", "log.preallocate"),
        _long("remote.copy.lag.bytes", -1, -1, "log.remote.copy.lag.bytes"),
        _long("remote.copy.lag.ms", 0, -1, "log.remote.copy.lag.ms"),
        _boolean("remote.log.copy.disable"),
        _boolean("remote.log.delete.on.disable"),
        _boolean("remote.storage.enable"),
        _integer("retention.bytes", -1, -_LONG_MAX - 1, _LONG_MAX, "log.retention.bytes"),
        _long(
            "retention.ms",
            _WEEK,
            -1,
            "log.retention.ms",
            ("log.retention.minutes", _MINUTE),
            ("log.retention.hours", _HOUR),
        ),
        _int("segment.bytes", 1 << 30, 1 << 20, "log.segment.bytes"),
        _int("segment.index.bytes", 10 << 20, 4, "log.index.size.max.bytes"),
        _long("segment.jitter.ms", 0, 0, "log.roll.jitter.ms", ("log.roll.jitter.hours", _HOUR)),
        _long("segment.ms", _WEEK, 1, "log.roll.ms", ("log.roll.hours", _HOUR)),
        _boolean(UNCLEAN_ELECTION, UNCLEAN_ELECTION),
    )
}
"""By name, sorted. Kafka's `internal.segment.bytes`, for its own tests, is left out."""

assert list(CONFIGS) == sorted(CONFIGS), list(CONFIGS)
