"""Configs of consumer, share and streams groups, within limits that brokers set. KIP-848, KIP-932, KIP-1071.

The table follows Kafka 4.4's `GroupConfig`; a test compares it with a Kafka release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from quorate.controller.configs import broker
from quorate.controller.configs.values import (
    LONG_MAX,
    Set,
    Source,
    Values,
    ValueType,
    boolean,
    integer,
    items,
    long,
    names,
    one_of,
    text,
    trim,
    whole,
)

__all__ = ["CONFIGS", "GroupConfig", "candidates", "faults"]

STREAMS_ASSIGNORS: Final = "group.streams.assignors"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A group config. `synonym` is the broker config that is its default, `least` and `most` those that limit it.

    `default` is set only if there is no `synonym`.
    """

    name: str
    values: Values
    default: str | None = None
    synonym: str | None = None
    least: str | None = None
    most: str | None = None
    internal: bool = False
    """Whether the config is internal to Kafka, and described only if it is set."""


def faults(values: Mapping[str, str], *, static: Mapping[str, str]) -> list[str]:
    """Returns what is wrong with these group configs, one sentence each; empty if Kafka accepts them.

    `static` has broker configs by Kafka's names, which limit the values.
    """
    found = []
    for name, value in values.items():
        config = CONFIGS.get(name)
        if config is None:
            found.append(f"{name!r} is no group config")
        elif not config.values.takes(value):
            found.append(f"{name}={value!r}: it must be {config.values.rule}")
    return found or [*_limits(values, static), *_sessions(values, static)]


def candidates(
    config: GroupConfig, *, group: Mapping[str, str], cluster: Mapping[str, str], static: Mapping[str, str]
) -> Iterator[Set]:
    """Yields every value of a group config, most specific first: the first is effective, the last is the default.

    `group` is what is set on the group; `cluster` and `static` are broker configs by Kafka's names.
    """
    if config.name in group:
        yield Set(config.name, group[config.name], Source.GROUP)
    if config.synonym is None:
        assert config.default is not None, config
        yield Set(config.name, config.default, Source.DEFAULT)
        return
    for each in broker.candidates(config.synonym, own={}, cluster=cluster, static=static):
        # The first of the brokers' assignors is the group's default.
        yield replace(each, value=items(each.value)[0]) if each.name == STREAMS_ASSIGNORS else each


def _limits(values: Mapping[str, str], static: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        config = CONFIGS[name]
        if config.least is not None and whole(value) < whole(_of_broker(config.least, static)):
            yield f"{name}={value!r} is below {config.least}={_of_broker(config.least, static)}"
        if config.most is not None and whole(value) > whole(_of_broker(config.most, static)):
            yield f"{name}={value!r} is above {config.most}={_of_broker(config.most, static)}"
    assignor = values.get("streams.assignor.name")
    allowed = items(_of_broker(STREAMS_ASSIGNORS, static))
    if assignor is not None and trim(assignor) not in allowed:
        yield f"streams.assignor.name={assignor!r} is none of {STREAMS_ASSIGNORS}={','.join(allowed)}"


def _sessions(values: Mapping[str, str], static: Mapping[str, str]) -> Iterator[str]:
    """Yields faults of session timeout and heartbeat interval, only for a group type with one of them set here."""
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        timeout, interval = (
            whole(values.get(name, _of_broker(f"group.{name}", static))) for name in (session, heartbeat)
        )
        if not values.keys().isdisjoint((session, heartbeat)) and timeout <= interval:
            yield f"{session}={timeout} is not above {heartbeat}={interval}"


def _of_broker(name: str, static: Mapping[str, str]) -> str:
    value = static.get(name, broker.default_of(name))
    assert value is not None, name
    return value


_DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<d>[+-]?\d{1,19})D)?"
    r"(?:T(?=.)(?:(?P<h>[+-]?\d{1,19})H)?(?:(?P<m>[+-]?\d{1,19})M)?(?:(?P<s>[+-]?\d{1,19}(?:[.,]\d{0,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def _is_duration(value: str) -> bool:
    """Returns whether a text is a duration of Java's Duration.parse that is not negative."""
    found = _DURATION.fullmatch(value)
    if found is None or not any(found[unit] for unit, _ in _SECONDS):
        return False
    total = sum(
        Fraction(found[unit].replace(",", ".").rstrip(".")) * seconds for unit, seconds in _SECONDS if found[unit]
    )
    return 0 <= (-total if found["sign"] == "-" else total) <= LONG_MAX


def _offset_reset() -> Values:
    def takes(value: str) -> bool:
        word = trim(value)
        return word in ("earliest", "latest") or (
            word.startswith("by_duration:") and _is_duration(word.removeprefix("by_duration:"))
        )

    return Values(ValueType.STRING, "earliest, latest, or by_duration:<an ISO 8601 duration>", takes)


def _topic_name() -> Values:
    return Values(
        ValueType.STRING, "a topic's name that does not begin with __", lambda value: not trim(value).startswith("__")
    )


def _ranged(kind: str, what: str, values: Values | None = None) -> GroupConfig:
    """Makes a group config with a broker config for its default and one for each limit."""
    return GroupConfig(
        name=f"{kind}.{what}",
        values=values or integer(1),
        synonym=f"group.{kind}.{what}",
        least=f"group.{kind}.min.{what}",
        most=f"group.{kind}.max.{what}",
    )


def _offload(kind: str) -> GroupConfig:
    name = f"{kind}.assignor.offload.enable"
    return GroupConfig(name=name, values=boolean(), synonym=f"group.{name}", internal=True)


def _streams(
    what: str, values: Values, *, least: str | None = None, most: str | None = None, internal: bool = False
) -> GroupConfig:
    return GroupConfig(
        name=f"streams.{what}",
        values=values,
        synonym=f"group.streams.{what}",
        least=least,
        most=most,
        internal=internal,
    )


CONFIGS: Final[Mapping[str, GroupConfig]] = {
    config.name: config
    for config in (
        _ranged("consumer", "assignment.interval.ms", integer(0)),
        _offload("consumer"),
        _ranged("consumer", "heartbeat.interval.ms"),
        _ranged("consumer", "session.timeout.ms"),
        GroupConfig(name="errors.deadletterqueue.copy.record.enable", values=boolean(), default="false"),
        GroupConfig(name="errors.deadletterqueue.topic.name", values=_topic_name(), default=""),
        _ranged("share", "assignment.interval.ms", integer(0)),
        _offload("share"),
        GroupConfig(name="share.auto.offset.reset", values=_offset_reset(), default="latest"),
        _ranged("share", "delivery.count.limit"),
        _ranged("share", "heartbeat.interval.ms"),
        GroupConfig(
            name="share.isolation.level",
            values=one_of("read_committed", "read_uncommitted"),
            default="read_uncommitted",
        ),
        _ranged("share", "partition.max.record.locks"),
        _ranged("share", "record.lock.duration.ms"),
        GroupConfig(name="share.renew.acknowledge.enable", values=boolean(), default="true"),
        _ranged("share", "session.timeout.ms"),
        _streams("acceptable.recovery.lag", long(0), internal=True),
        _ranged("streams", "assignment.interval.ms", integer(0)),
        GroupConfig(name="streams.assignor.name", values=text(), synonym=STREAMS_ASSIGNORS),
        _offload("streams"),
        _ranged("streams", "heartbeat.interval.ms"),
        _streams("initial.rebalance.delay.ms", integer(0)),
        _streams("num.standby.replicas", integer(0), most="group.streams.max.standby.replicas"),
        _streams("num.warmup.replicas", integer(0), most="group.streams.max.warmup.replicas", internal=True),
        _streams("rack.aware.assignment.tags", names()),
        _ranged("streams", "session.timeout.ms"),
        _streams(
            "task.offset.interval.ms", integer(1), least="group.streams.min.task.offset.interval.ms", internal=True
        ),
    )
}
"""All group configs by name, sorted."""

assert list(CONFIGS) == sorted(CONFIGS), list(CONFIGS)
for _each in CONFIGS.values():
    assert (_each.default is None) != (_each.synonym is None), _each
    assert _each.default is None or _each.values.takes(_each.default), _each
    for _named in filter(None, (_each.synonym, _each.least, _each.most)):
        assert broker.default_of(_named) is not None, f"a broker config with a default: {_named} of {_each.name}"
    assert _each.synonym in (None, STREAMS_ASSIGNORS) or _each.values.takes(_of_broker(_each.synonym, {})), _each
    _defaults = [_of_broker(_named, {}) for _named in (_each.least, _each.synonym, _each.most) if _named is not None]
    assert len(_defaults) < 2 or _defaults == sorted(_defaults, key=whole), (_each, _defaults)
