"""Secrets in the metadata: which configs may be passwords, and how config and SCRAM records are redacted.

The rule is that of Kafka's brokers (`KafkaConfig.maybeSensitive`): a config is public if its table lists it with a type
other than PASSWORD. An unknown config may be a plugin's password, so it is secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kraft import Message
from quorate.controller.configs import broker, client_metrics, group, topic
from quorate.controller.configs.broker_file import FILE_ONLY
from quorate.metadata.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from quorate.records import ConfigRecord, UserScramCredentialRecord

__all__ = ["PUBLIC", "REDACTED", "is_secret", "redacted"]

REDACTED: Final = "(redacted)"

PUBLIC: Final[Mapping[int, frozenset[str]]] = {
    kind: frozenset(config.name for config in configs if not config.values.is_sensitive)
    for kind, configs in (
        (TOPIC, topic.CONFIGS.values()),
        (BROKER, filter(None, map(broker.config_of, FILE_ONLY.keys() | broker.DYNAMIC.keys()))),
        (CLIENT_METRICS, client_metrics.CONFIGS.values()),
        (GROUP, group.CONFIGS.values()),
    )
}
"""By resource type: the configs whose values are public; brokers' config names without a listener prefix."""
for _public in PUBLIC.values():
    assert not any(_name.endswith("password") for _name in _public), _public


def is_secret(resource_type: int, config: str) -> bool:
    """Returns whether the value of this config is a password or may be one.

    >>> is_secret(BROKER, "listener.name.a.ssl.key.password"), is_secret(BROKER, "listener.name.a.ssl.keystore.type")
    (True, False)
    >>> is_secret(BROKER, "my.plugin.api.key"), is_secret(BROKER, "retention.ms"), is_secret(TOPIC, "retention.ms")
    (True, True, False)
    """
    known = broker.unprefixed(config) if resource_type == BROKER else config
    return known not in PUBLIC.get(resource_type, frozenset())


def redacted(record: Message) -> Message:
    """Returns the record as it may be shown: a secret config's value is `REDACTED`, a SCRAM record's bytes are empty.

    A record without a secret is returned as it is.
    """
    match record:
        case ConfigRecord() if record.value is not None and is_secret(record.resource_type, record.name):
            return msgspec.structs.replace(record, value=REDACTED)
        case UserScramCredentialRecord():
            return msgspec.structs.replace(record, salt=b"", stored_key=b"", server_key=b"")
        case _:
            return record
