"""Converts the metadata state to one JSON document, with the names of Kafka's metadata shell; secrets are redacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from quorate.controller.secrets import REDACTED, is_secret
from quorate.doubles import Double
from quorate.metadata import acls, scram
from quorate.metadata.configs import RESOURCE_TYPES
from quorate.metadata.partitions import RECOVERING
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.metadata.versions import METADATA_VERSION, release_of
from quorate.nouns import uuid_text
from quorate.wire.json_names import json_name

__all__ = ["as_json"]

# Any: JSON values, here and below.
Json = dict[str, Any]


def as_json(state: ClusterState) -> Json:
    """Returns the whole state as JSON values for `doubles.dumps`: ids as text, secrets redacted."""
    return {
        "features": _features(state),
        "cluster": {
            "brokers": {str(broker.id): _plain(broker) for broker in state.brokers},
            "controllers": {str(record.controller_id): _plain(record) for record in state.controllers},
        },
        "topics": {topic.name: _topic(topic) for topic in sorted(state.topics, key=lambda topic: topic.name)},
        "configs": _configs(state),
        "clientQuotas": [
            {"entity": dict(entity), "quotas": _quotas(state.client_quotas.of(entity))}
            for entity in state.client_quotas
        ],
        "producerIds": {"nextProducerId": state.producer_ids.next_producer_id},
        "acls": {uuid_text(entry.id): _acl(entry) for entry in state.acls},
        "scram": _scram(state),
        "delegationTokens": {token.token_id: _plain(token) for token in state.delegation_tokens},
        "unknownRecords": [
            {"apiKey": record.api_key, "version": record.version, "body": record.body.hex()} for record in state.unknown
        ],
    }


def _features(state: ClusterState) -> Json:
    level = state.features.metadata_version
    return {
        "finalizedVersions": state.features.finalized(),
        METADATA_VERSION: None if level is None else release_of(level),
        "zkMigrationState": state.features.zk_migration_state,
    }


def _topic(topic: Topic) -> Json:
    return {
        "topicId": uuid_text(topic.id),
        "partitions": {
            str(partition_id): {
                **_plain(partition),
                "leaderRecoveryState": "RECOVERING" if partition.leader_recovery_state == RECOVERING else "RECOVERED",
            }
            for partition_id, partition in topic.partitions.items()
        },
    }


def _quotas(quotas: Mapping[str, float]) -> Json:
    return {name: Double(quotas[name]) for name in sorted(quotas)}


def _configs(state: ClusterState) -> Json:
    by_type: Json = {}
    for resource in state.configs:
        values = state.configs.of(*resource)
        by_type.setdefault(RESOURCE_TYPES.get(resource.type, str(resource.type)), {})[resource.name] = {
            name: REDACTED if is_secret(resource.type, name) else values[name] for name in sorted(values)
        }
    return by_type


def _acl(entry: msgspec.Struct) -> Json:
    shown: Json = _plain(entry)
    for field, names in acls.NAMES.items():
        shown[field] = names.get(shown[field], shown[field])
    return shown


def _scram(state: ClusterState) -> Json:
    by_mechanism: Json = {}
    for credential in state.scram:
        mechanism = scram.MECHANISMS.get(credential.mechanism, str(credential.mechanism))
        by_mechanism.setdefault(mechanism, {})[credential.name] = {
            "iterations": credential.iterations,
            "salt": REDACTED,
            "storedKey": REDACTED,
            "serverKey": REDACTED,
        }
    return by_mechanism


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {
            json_name(name): _plain(getattr(value, name)) for name in value.__struct_fields__ if name != "unknown_tags"
        }
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return uuid_text(value)  # all other bytes fields are secrets, which are redacted before
    return value
