"""Writes of configs, features and members: `configs`, `features`, `brokers`, `controllers`, `quorum`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from quorate.cli.failures import Misused
from quorate.cli.write import Json, Write, number_of, pairs, split

__all__ = ["WRITES"]

TYPES: Final[Mapping[str, int]] = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
"""`quorate.metadata.configs.RESOURCE_TYPES`, which is not imported for --help; a test compares them."""
SET, DELETE, APPEND, SUBTRACT = range(4)
"""`AlterConfigOp.OpType` of Kafka."""
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
"""`FeatureUpdate.UpgradeType` of Kafka."""

Resource = Annotated[
    str,
    typer.Argument(metavar="TYPE/NAME", help=f"The type is one of {', '.join(TYPES)}; broker/ is every broker's."),
]
Settings = Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Configs.")]
Features = Annotated[
    list[str], typer.Argument(metavar="NAME=LEVEL", help="Of metadata.version also a release: metadata.version=4.3.")
]


def set_configs(resource: Resource, settings: Settings) -> Json:
    """Returns an IncrementalAlterConfigsRequest in JSON's values that sets configs of a resource. Raises Misused."""
    return _altered(resource, SET, pairs("config", settings, like="NAME=VALUE"))


def append_configs(resource: Resource, settings: Settings) -> Json:
    """Returns an IncrementalAlterConfigsRequest that appends to configs that are lists. Raises Misused."""
    return _altered(resource, APPEND, pairs("config", settings, like="NAME=VALUE"))


def subtract_configs(resource: Resource, settings: Settings) -> Json:
    """Returns an IncrementalAlterConfigsRequest that takes values out of configs that are lists. Raises Misused."""
    return _altered(resource, SUBTRACT, pairs("config", settings, like="NAME=VALUE"))


def delete_configs(
    resource: Resource, names: Annotated[list[str], typer.Argument(metavar="NAME", help="Configs.")]
) -> Json:
    """Returns an IncrementalAlterConfigsRequest that puts configs back to their defaults. Raises Misused."""
    return _altered(resource, DELETE, dict.fromkeys(names))


def _altered(resource: str, operation: int, configs: Mapping[str, str | None]) -> Json:
    kind, name = split("resource", resource, "/", like="TYPE/NAME, as in topic/orders")
    if kind not in TYPES:
        raise Misused(f"resource {resource!r}: type {kind!r} is none of {', '.join(TYPES)}")
    asked = [
        {"name": each, "config_operation": operation, **({} if value is None else {"value": value})}
        for each, value in configs.items()
    ]
    return {"resources": [{"resource_type": TYPES[kind], "resource_name": name, "configs": asked}]}


def _resources(asked: Json) -> Sequence[str]:
    names = {number: kind for kind, number in TYPES.items()}
    return [f"{names[each['resource_type']]}/{each['resource_name']}" for each in asked["resources"]]


def upgrade_features(features: Features) -> Json:
    """Returns an UpdateFeaturesRequest in JSON's values that raises levels. Raises Misused."""
    return _updated(features, UPGRADE)


def downgrade_features(
    features: Features,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Also if metadata is lost by it.")] = False,
) -> Json:
    """Returns an UpdateFeaturesRequest in JSON's values that lowers levels, `unsafe` or safely. Raises Misused."""
    return _updated(features, UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE)


def _updated(features: Sequence[str], kind: int) -> Json:
    levels = pairs("feature", features, like="NAME=LEVEL")
    updates = [
        {"feature": name, "max_version_level": _level(name, level), "upgrade_type": kind}
        for name, level in levels.items()
    ]
    return {"feature_updates": updates}


def _level(name: str, level: str) -> int:
    if not level.isdecimal():
        from quorate.metadata.versions import METADATA_VERSION, level_of

        if name == METADATA_VERSION:
            try:
                return level_of(level)
            except ValueError as problem:
                raise Misused(f"feature {name}={level}: {problem}") from None
    return number_of(f"feature {name}:", level, like="a level, a number from 0 on")


def unregister_broker(broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker.")]) -> Json:
    """Returns an UnregisterBrokerRequest."""
    return {"broker_id": broker_id}


def unregister_controller(
    controller_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="The controller.")],
) -> Json:
    """Returns an UnregisterControllerRequest."""
    return {"controller_id": controller_id}


Voter = Annotated[int, typer.Argument(metavar="ID", min=0, help="The node.")]
Directory = Annotated[
    str, typer.Option("--directory-id", metavar="ID", help="Of its metadata log directory: `storage info` says it.")
]


def add_voter(
    voter_id: Voter,
    directory_id: Directory,
    listeners: Annotated[
        list[str],
        typer.Option("--listener", metavar="NAME://HOST:PORT", help="Where the others reach it; may be repeated."),
    ],
) -> Json:
    """Returns an AddRaftVoterRequest. Raises Misused."""
    return {
        "voter_id": voter_id,
        "voter_directory_id": directory_id,
        "listeners": [_listener(each) for each in listeners],
    }


def _listener(text: str) -> Json:
    like = "NAME://HOST:PORT"
    name, address = split("--listener", text, "://", like=like)
    host, _, port = address.rpartition(":")
    if not host:
        raise Misused(f"--listener {text!r}: it is {like}")
    return {"name": name, "host": host.strip("[]"), "port": number_of("--listener: the port", port, like="a number")}


def remove_voter(voter_id: Voter, directory_id: Directory) -> Json:
    """Returns a RemoveRaftVoterRequest."""
    return {"voter_id": voter_id, "voter_directory_id": directory_id}


_CONFIGS: Final = "IncrementalAlterConfigs"

WRITES: Final = {
    ("configs", "set"): Write(_CONFIGS, "Set dynamic configs of a resource.", "set", set_configs, subjects=_resources),
    ("configs", "append"): Write(
        _CONFIGS, "Append to configs that are lists.", "appended to", append_configs, subjects=_resources
    ),
    ("configs", "subtract"): Write(
        _CONFIGS, "Take out of configs that are lists.", "subtracted from", subtract_configs, subjects=_resources
    ),
    ("configs", "delete"): Write(
        _CONFIGS, "Put configs of a resource back to their defaults.", "deleted", delete_configs, subjects=_resources
    ),
    ("features", "upgrade"): Write(
        "UpdateFeatures",
        "Raise the levels of features; `features plan` says what stands against it.",
        "raised",
        upgrade_features,
        named_by=("feature",),
        subjects=lambda asked: [each["feature"] for each in asked["feature_updates"]],
    ),
    ("features", "downgrade"): Write(
        "UpdateFeatures",
        "Lower the levels of features; level 0 switches one off.",
        "lowered",
        downgrade_features,
        named_by=("feature",),
        subjects=lambda asked: [each["feature"] for each in asked["feature_updates"]],
    ),
    ("brokers", "unregister"): Write(
        "UnregisterBroker",
        "Remove the registration of a broker that is gone for good.",
        "unregistered",
        unregister_broker,
        subjects=lambda asked: [f"broker {asked['broker_id']}"],
    ),
    ("controllers", "unregister"): Write(
        "UnregisterController",
        "Remove the registration of a controller that is gone for good.",
        "unregistered",
        unregister_controller,
        subjects=lambda asked: [f"controller {asked['controller_id']}"],
    ),
    ("quorum", "add-voter"): Write(
        "AddRaftVoter",
        "Make an observer a voter (KIP-853).",
        "added",
        add_voter,
        subjects=lambda asked: [f"voter {asked['voter_id']}"],
        is_enveloped=False,
    ),
    ("quorum", "remove-voter"): Write(
        "RemoveRaftVoter",
        "Remove a voter (KIP-853).",
        "removed",
        remove_voter,
        subjects=lambda asked: [f"voter {asked['voter_id']}"],
        is_enveloped=False,
    ),
}
