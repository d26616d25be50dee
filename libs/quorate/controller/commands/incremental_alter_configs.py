"""IncrementalAlterConfigs (44): changes the named configs of resources and leaves the others as they are. KIP-339."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import partial
from typing import TypeAlias

from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from quorate.controller.configs.config_changes import Changes, ConfigRequest, alter, check_length
from quorate.controller.configs.kinds import kind_of, said
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.values import split
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, dry
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import ConfigResource
from quorate.metadata.state import ClusterState

__all__ = ["ConfigOperation", "incremental_alter_configs"]

_Asked: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource
_Config: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
_Result: TypeAlias = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


class ConfigOperation(IntEnum):
    """The operations on a config. KIP-339."""

    SET = 0
    DELETE = 1
    APPEND = 2
    """Adds the values to a list that it does not have yet."""
    SUBTRACT = 3
    """Removes the values from a list."""


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, *, settings: ControllerSettings
) -> Command[IncrementalAlterConfigsResponse]:
    """Returns the command that changes the named configs of each resource in `request` as its operations say.

    Each resource succeeds or fails by itself. With `validate_only` nothing is written.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[IncrementalAlterConfigsResponse]]:
        outcomes, records = yield from alter(state, map(_asked, request.resources), settings)
        response = IncrementalAlterConfigsResponse(responses=tuple(_Result(*each.fields) for each in outcomes))
        decision = Decision(response, tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def _asked(asked: _Asked) -> ConfigRequest:
    resource = ConfigResource(asked.resource_type, asked.resource_name)
    names, values = tuple(each.name for each in asked.configs), tuple(each.value for each in asked.configs)
    return ConfigRequest(resource, names, values, partial(_changes, resource, asked.configs))


def _changes(resource: ConfigResource, configs: tuple[_Config, ...], before: Mapping[str, str]) -> Changes:
    changes = {each.name: _value(resource, each, before.get(each.name)) for each in configs}
    assert len(changes) == len(configs), f"`alter` has refused doubles: {resource}, {list(changes)}, {len(configs)}"
    return changes


def _value(resource: ConfigResource, config: _Config, before: str | None) -> str | None:
    match config.config_operation:
        case ConfigOperation.DELETE:
            return None
        case ConfigOperation.SET | ConfigOperation.APPEND | ConfigOperation.SUBTRACT if config.value is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{said(resource)}: {config.name} has no value; only DELETE needs none"
            )
        case ConfigOperation.SET:
            return config.value
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            return _list(resource, config, before)
        case other:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{said(resource)}: {config.name} with operation {other}, which is none of "
                f"{', '.join(f'{each.value} {each.name}' for each in ConfigOperation)}",
            )


def _list(resource: ConfigResource, config: _Config, before: str | None) -> str:
    """Applies APPEND or SUBTRACT to the list that is set, or else to Kafka's default; the file's value is ignored."""
    assert config.value is not None, config.name
    check_length(resource, config.name, config.value)
    default = kind_of(resource).list_default(config.name)
    if default is None:
        operation = ConfigOperation(config.config_operation).name
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{said(resource)}: {operation} is for lists only, and {config.name} is not a list",
        )
    parts = [part for part in split(default if before is None else before) if part]
    named = Counter(split(config.value))
    if config.config_operation == ConfigOperation.APPEND:
        present = set(parts)
        return ",".join([*parts, *(part for part in named if part not in present)])
    return ",".join(_without(parts, named))


def _without(parts: Iterable[str], named: Counter[str]) -> Iterator[str]:
    """Yields the parts that are left; one that is named once is removed once, as in Kafka."""
    for part in parts:
        if named[part]:
            named[part] -= 1
        else:
            yield part
