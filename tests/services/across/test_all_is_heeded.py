"""No setting and no field of a request is taken and then read nowhere: each has a reader, or a reason that stands here.

A setting has a reader if the code of its service reads that attribute off the configuration. A field has one if a
module that names the message's class reads it, or the one that `GENERIC` names for it: code that serves many messages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.configs.settings import ControllerSettings as ControllerSettings
from quorate.raft.settings import RaftSettings as RaftSettings
from tests.services.rpcs import services

ROOT: Final = Path(__file__).parents[3]
CODE: Final = ("services", "libs/quorate", "deploy/local")

CONFIGS: Final = ("quorum", "controller", "heartbeat", "placer", "observer")
BASES: Final = (
    "libs/quorate/runtime/calls/call_settings.py",
    "libs/quorate/runtime/calls/transport_settings.py",
    "libs/quorate/runtime/access/entry_guard.py",
    "libs/quorate/runtime/access/guard.py",
    "libs/quorate/runtime/process.py",
    "libs/quorate/runtime/calls/server.py",
    "libs/quorate/runtime/settings/stop_settings.py",
)
"""Where the settings are that several services have, and what reads them."""
KEPT_ELSEWHERE: Final = {
    "quorate.raft.settings": (RaftSettings, ("libs/quorate/raft",)),
    "quorate.controller.configs.settings": (ControllerSettings, ("libs/quorate/controller", "services/controller")),
    "quorate.controller.access.delegation_tokens": (TokenSettings, ("libs/quorate/controller",)),
}

GENERIC: Final = {
    "topics": "services/quorum/translate/envelope.py",
    "partitions": "services/quorum/translate/envelope.py",
    "topic_id": "services/quorum/translate/envelope.py",
    "topic_name": "services/quorum/translate/envelope.py",
    "partition_index": "services/quorum/translate/envelope.py",
    "partition": "services/quorum/translate/envelope.py",
    "timeout_ms": "services/controller/deadlines.py",
    "items": "libs/quorate/wire/protobuf.py",
    "host_filter": "libs/quorate/controller/access/acl_filters.py",
    "pattern_type_filter": "libs/quorate/controller/access/acl_filters.py",
    "principal_filter": "libs/quorate/controller/access/acl_filters.py",
    "resource_name_filter": "libs/quorate/controller/access/acl_filters.py",
    "resource_type_filter": "libs/quorate/controller/access/acl_filters.py",
}
"""Fields that one module reads off many messages."""

IGNORED: Final = {
    "ApiVersionsRequest.client_software_name": "who asks is not told apart: Kafka makes a metric of connections of it",
    "ApiVersionsRequest.client_software_version": "the same",
    "ApiVersionsRequest.node_id": "of clients that would bootstrap anew (KIP-1242): peers go by the cluster",
    "ControllerRegistrationRequest.zk_migration_ready": "there is no ZooKeeper to come from since Kafka 4.0",
    "DescribeConfigsRequest.include_documentation": "there are no texts: libs/quorate/controller/README.md",
    "FetchRequest.FetchTopic.topic": "of version 12 and before; the topic goes by its id",
    "FetchRequest.FetchTopic.FetchPartition.partition_max_bytes": "KafkaRaftClient reads max_bytes alone",
    "FetchRequest.forgotten_topics_data": "of fetch sessions, which KafkaRaftClient does not have",
    "FetchRequest.ForgottenTopic.topic": "the same",
    "FetchRequest.ForgottenTopic.topic_id": "the same",
    "FetchRequest.isolation_level": "KafkaRaftClient does not read it: the metadata log has no aborted records",
    "FetchRequest.min_bytes": "KafkaRaftClient does not read it: a fetch is held while there is nothing at all",
    "FetchRequest.rack_id": "KafkaRaftClient does not read it: who follows fetches from the leader",
    "FetchRequest.session_epoch": "of fetch sessions, which KafkaRaftClient does not have",
    "FetchRequest.session_id": "the same",
    "ListPartitionReassignmentsRequest.timeout_ms": "ControllerApis does not read it either",
    "UpdateFeaturesRequest.timeout_ms": "ControllerApis does not read it either",
    "UpdateFeaturesRequest.FeatureUpdateKey.allow_downgrade": "of version 0, whose successor is upgrade_type (KIP-778)",
}
"""What is taken and has no effect, and why."""


@cache
def trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8"))
        for folder in CODE
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@cache
def read_in(path: str) -> frozenset[str]:
    """Attributes that are read, and texts, by which `HasField` and `getattr` name them."""
    nodes = list(ast.walk(trees()[path]))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return frozenset(attributes | {text for text in constants if isinstance(text, str)})


@cache
def names_in(path: str) -> frozenset[str]:
    nodes = list(ast.walk(trees()[path]))
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return frozenset(imported | {node.id for node in nodes if isinstance(node, ast.Name)})


def read_off(path: str, *objects: str) -> set[str]:
    """Attributes that are read off a variable, or an attribute, of one of these names."""
    return {
        node.attr
        for node in ast.walk(trees()[path])
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and (
            (isinstance(node.value, ast.Name) and node.value.id in objects)
            or (isinstance(node.value, ast.Attribute) and node.value.attr in objects)
        )
    }


@pytest.mark.parametrize("service", CONFIGS)
def test_every_setting_is_read(service: str) -> None:
    config = getattr(import_module(f"services.{service}.config"), f"{service.capitalize()}Config")
    own = f"services/{service}/config.py"
    read = read_off(own, "self").union(
        *(read_off(path, "self", "settings") for path in BASES),
        *(read_off(path, "config") for path in trees() if path.startswith(f"services/{service}/") and path != own),
    )

    assert {field.name for field in fields(config)} - read == set()


@pytest.mark.parametrize("module", KEPT_ELSEWHERE)
def test_every_setting_of_a_core_is_read(module: str) -> None:
    settings, folders = KEPT_ELSEWHERE[module]
    own = f"libs/{module.replace('.', '/')}.py"
    core = [path for path in trees() if path.startswith(folders) and path != own]
    read = read_off(own, "self", "settings").union(*(read_in(path) for path in core))

    assert {field.name for field in fields(settings)} - read == set()


def of_message(message: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """The message and all that its fields hold, by name."""
    if message.full_name not in seen and not message.full_name.startswith("google."):
        seen[message.full_name] = message
        for field in message.fields:
            if field.message_type is not None:
                of_message(field.message_type, seen)
    return seen


def requests() -> Iterator[Any]:
    """Every message of a request of every service."""
    for service in services():
        for method in service.methods:
            yield from of_message(method.input_type, {}).values()


def outermost(message: Any) -> str:
    while message.containing_type is not None:
        message = message.containing_type
    return str(message.name)


def shown(message: Any, field: str) -> str:
    """The name of a field with its message's, without the package's."""
    return f"{message.full_name.removeprefix('kraft.').partition('.')[2]}.{field}"


def unread() -> set[str]:
    """Fields that no module reads that names the message's class."""
    found = set()
    for message in requests():
        readers = [path for path in trees() if outermost(message) in names_in(path)]
        read = frozenset().union(*map(read_in, readers))
        arms = {field.name for oneof in message.oneofs for field in oneof.fields}  # read by what is set, as a whole
        found |= {shown(message, field.name) for field in message.fields if field.name not in read | arms}
    return found


def test_every_field_of_a_request_is_read_or_has_a_reason() -> None:
    def is_generic(field: str) -> bool:
        name = field.rpartition(".")[2]
        return name in GENERIC and field not in IGNORED

    assert {field for field in unread() if not is_generic(field)} - IGNORED.keys() == set()


def test_reasons_are_given_for_fields_that_there_are() -> None:
    assert IGNORED.keys() - {shown(message, field.name) for message in requests() for field in message.fields} == set()


@pytest.mark.parametrize("field", GENERIC)
def test_what_is_read_off_many_messages_is_read_there(field: str) -> None:
    assert field in read_in(GENERIC[field])
