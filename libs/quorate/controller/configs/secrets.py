"""What in the state is nobody's to see: configs that are passwords or may be, and what SCRAM credentials are made of.

The rule is the one by which Kafka's brokers describe configs (`KafkaConfig.maybeSensitive`): told is what stands in the
table of its kind with another type than a password. What is in none may be a plugin's, and a password.
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
"""By resource type: the configs whose values are no secrets; a broker's without a prefix."""


def is_secret(resource_type: int, config: str) -> bool:
    """Is the value of this config a password, or may it be one?

    >>> is_secret(BROKER, "listener.name.a.ssl.key.password"), is_secret(BROKER, "listener.name.a.ssl.keystore.type")
    (True, False)
    >>> is_secret(BROKER, "my.plugin.api.key"), is_secret(BROKER, "retention.ms"), is_secret(TOPIC, "retention.ms")
    (True, True, False)
    """
    known = broker.unprefixed(config) if resource_type == BROKER else config
    return known not in PUBLIC.get(resource_type, frozenset())


def redacted(record: Message) -> Message:
    """`record` without what is secret in it: text is replaced, bytes are empty. Replaying it would be wrong."""
    match record:
        case ConfigRecord() if record.value is not None and is_secret(record.resource_type, record.name):
            return msgspec.structs.replace(record, value=REDACTED)
        case UserScramCredentialRecord():
            return msgspec.structs.replace(record, salt=b"", stored_key=b"", server_key=b"")
        case _:
            return record
