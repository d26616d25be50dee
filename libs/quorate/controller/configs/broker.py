"""Broker configs: which can be set at run time and for whom, their valid values and defaults. KIP-226.

The tables follow Kafka 4.4's `KafkaConfig` and `DynamicBrokerConfig`; a test compares them with a Kafka release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from quorate.controller.configs.broker_file import FILE_ONLY
from quorate.controller.configs.values import (
    INT_MAX,
    LONG_MAX,
    Set,
    Source,
    Values,
    ValueType,
    boolean,
    decimal,
    gzip_level,
    integer,
    java_class,
    list_of,
    long,
    names,
    one_of,
    password,
    text,
)

__all__ = [
    "DYNAMIC",
    "OF_LISTENER",
    "OF_MECHANISM",
    "QUOTAS",
    "BrokerConfig",
    "Scope",
    "candidates",
    "config_of",
    "default_of",
    "faults",
    "file_faults",
    "unprefixed",
]


class Scope(Enum):
    """The update mode of a broker config: for which brokers it can be set at run time."""

    CLUSTER = "cluster-wide"
    """The config can be set for all brokers or for one."""
    BROKER = "per-broker"
    """The config can be set for one broker only."""
    FILE = "read-only"
    """The config cannot be set at run time: a broker reads it from its file at start."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker config; `default` is None if it has no value unless it is set."""

    name: str
    values: Values
    default: str | None
    scope: Scope


OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)
OF_MECHANISM: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
"""The configs that a listener has per SASL mechanism, whose name is a prefix."""
_OF_TYPE: Final[Mapping[ValueType, Values]] = {
    values.type: values
    for values in (
        *(boolean(), text(), integer(), integer(of=ValueType.SHORT), long()),
        *(decimal(), java_class(), password(), Values(ValueType.LIST, "a list", lambda _: True)),
    )
}
_ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    name: group
    for group in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for name in group
}
"""Configs for the same thing in several units; the first one that is set is effective."""


def config_of(name: str) -> BrokerConfig | None:
    """Returns the config with this name, with or without listener and SASL mechanism prefix; None if it is unknown.

    >>> config_of("listener.name.internal.plain.sasl.jaas.config").values.is_sensitive
    True
    """
    bare = unprefixed(name)
    if bare in DYNAMIC:
        return DYNAMIC[bare]
    if bare not in FILE_ONLY:
        return None
    value_type, default = FILE_ONLY[bare]
    return BrokerConfig(bare, _OF_TYPE[value_type], default, Scope.FILE)


def default_of(name: str) -> str | None:
    """Returns Kafka's default, as text, of a broker config without a prefix; None if it has none or is unknown."""
    if name in DYNAMIC:
        return DYNAMIC[name].default
    return FILE_ONLY[name][1] if name in FILE_ONLY else None


def candidates(
    name: str, *, own: Mapping[str, str], cluster: Mapping[str, str], static: Mapping[str, str]
) -> Iterator[Set]:
    """Yields every value of a broker config, most specific first: the first is effective, the last is the default.

    The values are those set for this broker (`own`), for all brokers (`cluster`) and in the file (`static`). As in
    Kafka, configs for the same thing in other units come after the config's own value, and are left out if it is not
    set itself. A value set at run time that no broker would accept, as a log may have one, is left out, too.
    """
    alike = _alike(name)
    defaults = {each: value for each in alike if (value := default_of(each)) is not None}
    found = (
        Set(each, values[each], source)
        for values, source in (
            (own, Source.BROKER),
            (cluster, Source.CLUSTER),
            (static, Source.STATIC),
            (defaults, Source.DEFAULT),
        )
        for each in alike
        if each in values and _is_heeded(each, values[each], source)
    )
    seen = False
    for each in found:
        seen = seen or each.name == name
        if seen:
            yield each


def _is_heeded(name: str, value: str, source: Source) -> bool:
    if source not in (Source.BROKER, Source.CLUSTER):
        return True
    return _fault(name, value, one_broker=source is Source.BROKER) is None


def faults(given: Mapping[str, str], *, one_broker: bool) -> list[str]:
    """Returns what is wrong with setting these configs at run time, one sentence each; empty if a broker accepts them.

    An unknown config is accepted, as it may be a plugin's. No sentence contains the value of a password config.
    """
    return [fault for name, value in given.items() if (fault := _fault(name, value, one_broker=one_broker)) is not None]


def file_faults(values: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each value of a properties file that has the wrong type; no secret is in it."""
    found = []
    for name, value in values.items():
        config = config_of(name)
        if config is not None and not _OF_TYPE[config.values.type].takes(value):
            shown = name if config.values.is_sensitive else f"{name}={value!r}"
            found.append(f"{shown}: it must be {_OF_TYPE[config.values.type].rule}")
    return found


def unprefixed(name: str) -> str:
    """Returns a config's name without listener and SASL mechanism prefix.

    >>> unprefixed("listener.name.internal.plain.sasl.jaas.config"), unprefixed("num.io.threads")
    ('sasl.jaas.config', 'num.io.threads')
    """
    if name in DYNAMIC or name in FILE_ONLY or (listened := OF_LISTENER.fullmatch(name)) is None:
        return name
    return next((each for each in OF_MECHANISM if listened[1].endswith(each)), listened[1])


def _fault(name: str, value: str, *, one_broker: bool) -> str | None:
    if name in FILE_ONLY:
        return f"{name} cannot be changed at run time; a broker reads it from its file when it starts"
    if name.startswith("ssl.") and name in DYNAMIC:
        return f"{name} can only be set for one listener, as listener.name.<listener>.{name}"
    config = DYNAMIC.get(OF_LISTENER.sub(r"\1", name))
    if config is not None and not config.values.takes(value):
        shown = name if config.values.is_sensitive else f"{name}={value!r}"
        return f"{shown}: it must be {config.values.rule}"
    if not one_broker and _is_for_one(name):
        return f"{name} can only be set for one broker, not as the default of all"
    return None


def _is_for_one(name: str) -> bool:
    listened = OF_LISTENER.fullmatch(name)
    if listened is not None:
        return listened[1] not in _OF_ALL_LISTENERS
    return name in DYNAMIC and DYNAMIC[name].scope == Scope.BROKER


_OF_ALL_LISTENERS: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})


def _alike(name: str) -> tuple[str, ...]:
    bare = unprefixed(name)
    if bare != name:
        return name, bare
    return _ALIKE.get(name, (name,))


def _every(name: str, values: Values, default: object) -> BrokerConfig:
    return BrokerConfig(name, values, None if default is None else str(default), Scope.CLUSTER)


def _each(name: str, values: Values, default: object) -> BrokerConfig:
    return BrokerConfig(name, values, None if default is None else str(default), Scope.BROKER)


QUOTAS: Final = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Kafka's QuotaConfig.brokerQuotaConfigs: a broker that is described has them only where they are set."""

DYNAMIC: Final[Mapping[str, BrokerConfig]] = {
    config.name: config
    for config in (
        _every("background.threads", integer(1), 10),
        _every("compression.gzip.level", gzip_level(), -1),
        _every("compression.lz4.level", integer(1, 17), 9),
        _every("compression.type", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "producer"),
        _every("compression.zstd.level", integer(-131072, 22), 3),
        _every("config.providers", names(), ""),
        _each("cordoned.log.dirs", names(), ""),
        _every("errors.deadletterqueue.auto.create.topics.enable", boolean(), "false"),
        _every("errors.deadletterqueue.topic.name.prefix", text(), "dlq."),
        _every("follower.fetch.last.tiered.offset.enable", boolean(), "false"),
        _every("follower.replication.throttled.rate", long(0), LONG_MAX),
        _every("group.consumer.assignment.interval.ms", integer(0), 1000),
        _every("group.consumer.assignor.offload.enable", boolean(), "true"),
        _every("group.coordinator.cached.buffer.max.bytes", integer(524288), 1048588),
        _every("group.share.assignment.interval.ms", integer(0), 1000),
        _every("group.share.assignor.offload.enable", boolean(), "true"),
        _every("group.streams.assignment.interval.ms", integer(0), 1000),
        _every("group.streams.assignor.offload.enable", boolean(), "true"),
        _every("leader.replication.throttled.rate", long(0), LONG_MAX),
        _each(
            "listener.security.protocol.map",
            text(),
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        ),
        _each("listeners", names(least=1), "PLAINTEXT://:9092"),
        _every("log.cleaner.backoff.ms", long(0), 15000),
        _every("log.cleaner.dedupe.buffer.size", long(), 134217728),
        _every("log.cleaner.delete.retention.ms", long(0), 86400000),
        _every("log.cleaner.io.buffer.load.factor", decimal(), "0.9"),
        _every("log.cleaner.io.buffer.size", integer(0), 524288),
        _every("log.cleaner.io.max.bytes.per.second", decimal(), "1.7976931348623157E308"),
        _every("log.cleaner.max.compaction.lag.ms", long(1), LONG_MAX),
        _every("log.cleaner.min.cleanable.ratio", decimal(0, 1), "0.5"),
        _every("log.cleaner.min.compaction.lag.ms", long(0), 0),
        _every("log.cleaner.threads", integer(0), 1),
        _every("log.cleanup.policy", list_of("compact", "delete"), "delete"),
        _every("log.flush.interval.messages", long(1), LONG_MAX),
        _every("log.flush.interval.ms", long(), None),
        _every("log.index.interval.bytes", integer(0), 4096),
        _every("log.index.size.max.bytes", integer(4), 10485760),
        _every("log.local.retention.bytes", long(-2), -2),
        _every("log.local.retention.ms", long(-2), -2),
        _every("log.message.timestamp.after.max.ms", long(0), 3600000),
        _every("log.message.timestamp.before.max.ms", long(0), LONG_MAX),
        _every("log.message.timestamp.type", one_of("CreateTime", "LogAppendTime"), "CreateTime"),
        _every("log.preallocate", boolean(), "false"),
        _every("log.remote.copy.lag.bytes", long(-1), -1),
        _every("log.remote.copy.lag.ms", long(-1), 0),
        _every("log.retention.bytes", long(), -1),
        _every("log.retention.ms", long(), None),
        _every("log.roll.jitter.ms", long(), None),
        _every("log.roll.ms", long(), None),
        _every("log.segment.bytes", integer(1048576), "1073741824"),
        _every("log.segment.delete.delay.ms", long(0), 60000),
        _every("max.connection.creation.rate", integer(0), INT_MAX),
        _every("max.connections", integer(0), INT_MAX),
        _every("max.connections.per.ip", integer(0), INT_MAX),
        _every("max.connections.per.ip.overrides", text(), ""),
        _every("max.decompressed.message.bytes", integer(1, 2147483639), "2147483639"),
        _every("message.max.bytes", integer(0), 1048588),
        _every("metric.reporters", names(), "org.apache.kafka.common.metrics.JmxReporter"),
        _every("min.insync.replicas", integer(1), 1),
        _every("num.io.threads", integer(1), 8),
        _every("num.network.threads", integer(1), 3),
        _every("num.recovery.threads.per.data.dir", integer(1), 2),
        _every("num.replica.fetchers", integer(1), 1),
        _each(
            "principal.builder.class",
            java_class(),
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        ),
        _every("producer.id.expiration.ms", integer(1), 86400000),
        _every("remote.fetch.max.wait.ms", integer(1), 500),
        _every("remote.list.offsets.request.timeout.ms", long(1), 30000),
        _every("remote.log.index.file.cache.total.size.bytes", long(1), "1073741824"),
        _every("remote.log.manager.copier.thread.pool.size", integer(1), 10),
        _every("remote.log.manager.copy.max.bytes.per.second", long(1), LONG_MAX),
        _every("remote.log.manager.expiration.thread.pool.size", integer(1), 10),
        _every("remote.log.manager.fetch.max.bytes.per.second", long(1), LONG_MAX),
        _every("remote.log.manager.follower.thread.pool.size", integer(1), 2),
        _every("remote.log.reader.threads", integer(1), 10),
        _every("replica.alter.log.dirs.io.max.bytes.per.second", long(0), LONG_MAX),
        _each("sasl.enabled.mechanisms", names(), "GSSAPI"),
        _each("sasl.jaas.config", password(), None),
        _each("sasl.kerberos.kinit.cmd", text(), "/usr/bin/kinit"),
        _each("sasl.kerberos.min.time.before.relogin", long(), 60000),
        _each("sasl.kerberos.principal.to.local.rules", names(), "DEFAULT"),
        _each("sasl.kerberos.service.name", text(), None),
        _each("sasl.kerberos.ticket.renew.jitter", decimal(), "0.05"),
        _each("sasl.kerberos.ticket.renew.window.factor", decimal(), "0.8"),
        _each("sasl.login.refresh.buffer.seconds", integer(of=ValueType.SHORT), 300),
        _each("sasl.login.refresh.min.period.seconds", integer(of=ValueType.SHORT), 60),
        _each("sasl.login.refresh.window.factor", decimal(), "0.8"),
        _each("sasl.login.refresh.window.jitter", decimal(), "0.05"),
        _each("sasl.mechanism.inter.broker.protocol", text(), "GSSAPI"),
        _every("share.coordinator.cached.buffer.max.bytes", integer(524288), 1048588),
        _each("ssl.cipher.suites", names(), ""),
        _each("ssl.client.auth", one_of("required", "requested", "none"), "none"),
        _each("ssl.enabled.protocols", names(), "TLSv1.2,TLSv1.3"),
        _each("ssl.endpoint.identification.algorithm", text(), "https"),
        _each("ssl.engine.factory.class", java_class(), None),
        _each("ssl.key.password", password(), None),
        _each("ssl.keymanager.algorithm", text(), "SunX509"),
        _each("ssl.keystore.certificate.chain", password(), None),
        _each("ssl.keystore.key", password(), None),
        _each("ssl.keystore.location", text(), None),
        _each("ssl.keystore.password", password(), None),
        _each("ssl.keystore.type", text(), "JKS"),
        _each("ssl.protocol", text(), "TLSv1.3"),
        _each("ssl.provider", text(), None),
        _each("ssl.secure.random.implementation", text(), None),
        _each("ssl.trustmanager.algorithm", text(), "PKIX"),
        _each("ssl.truststore.certificates", password(), None),
        _each("ssl.truststore.location", text(), None),
        _each("ssl.truststore.password", password(), None),
        _each("ssl.truststore.type", text(), "JKS"),
        _every("transaction.partition.verification.enable", boolean(), "true"),
        _every("unclean.leader.election.enable", boolean(), "false"),
    )
}
"""The configs that can be set at run time, for all brokers (`_every`) or one broker (`_each`); by name, sorted."""

assert list(DYNAMIC) == sorted(DYNAMIC), list(DYNAMIC)
assert not DYNAMIC.keys() & FILE_ONLY.keys(), DYNAMIC.keys() & FILE_ONLY.keys()
for _config in DYNAMIC.values():
    assert _config.default is None or _config.values.takes(_config.default), _config
for _type, _default in FILE_ONLY.values():
    assert _default is None or _OF_TYPE[_type].takes(_default), (_type, _default)
assert _OF_ALL_LISTENERS <= DYNAMIC.keys(), _OF_ALL_LISTENERS - DYNAMIC.keys()
assert DYNAMIC.keys() | FILE_ONLY.keys() >= set(OF_MECHANISM), OF_MECHANISM
for _of_mechanism in OF_MECHANISM:
    _found = [_each for _each in OF_MECHANISM if _of_mechanism.endswith(_each)]
    assert _found == [_of_mechanism], f"a prefixed name means one config: {_found}"
for _name, _group in _ALIKE.items():
    assert _name in _group, (_name, _group)
    assert all(_ALIKE[_other] == _group for _other in _group), f"a config is in two groups: {_group}"
    assert default_of(_group[-1]) is not None, f"the last of them has a default: {_group}"
