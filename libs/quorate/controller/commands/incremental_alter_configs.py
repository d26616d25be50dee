"""IncrementalAlterConfigs (44): what is not named stays as it is. KIP-339."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import TypeAlias

from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from quorate.controller.config_changes import Asked, Changes, Outcome, alter
from quorate.controller.configs.kinds import kind_of, said
from quorate.controller.configs.values import split
from quorate.controller.decision import Command, Decision, Moment, dry
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import Resource
from quorate.metadata.state import ClusterState

__all__ = ["Operation", "incremental_alter_configs"]

_Asked: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource
_Config: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig
_Result: TypeAlias = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


class Operation(IntEnum):
    """What is done with a config. KIP-339."""

    SET = 0
    DELETE = 1
    APPEND = 2
    """To a list, what is not in it yet."""
    SUBTRACT = 3
    """From a list."""


def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, *, settings: Settings
) -> Command[IncrementalAlterConfigsResponse]:
    """The command that changes the configs of the resources of `request`, each by itself."""

    def command(state: ClusterState, _: Moment) -> Decision[IncrementalAlterConfigsResponse]:
        outcomes, records = alter(state, map(_asked, request.resources), settings)
        response = IncrementalAlterConfigsResponse(responses=tuple(map(_result, outcomes)))
        decision = Decision(response, tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def _asked(asked: _Asked) -> Asked:
    resource = Resource(asked.resource_type, asked.resource_name)
    return Asked(resource, tuple(each.name for each in asked.configs), partial(_changes, resource, asked.configs))


def _changes(resource: Resource, configs: tuple[_Config, ...], before: Mapping[str, str]) -> Changes:
    return {each.name: _value(resource, each, before.get(each.name)) for each in configs}


def _value(resource: Resource, config: _Config, before: str | None) -> str | None:
    match config.config_operation:
        case Operation.DELETE:
            return None
        case Operation.SET | Operation.APPEND | Operation.SUBTRACT if config.value is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{said(resource)}: {config.name} has no value; only DELETE needs none"
            )
        case Operation.SET:
            return config.value
        case Operation.APPEND | Operation.SUBTRACT:
            return _list(resource, config, before)
        case other:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{said(resource)}: {config.name} with operation {other}, which is none of "
                f"{', '.join(f'{each.value} {each.name}' for each in Operation)}",
            )


def _list(resource: Resource, config: _Config, before: str | None) -> str:
    """The list that results, of what is set or else of Kafka's default; what the file says does not count."""
    default = kind_of(resource).list_default(config.name)
    if default is None:
        operation = Operation(config.config_operation).name
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{said(resource)}: {operation} {config.name}, which is no list")
    parts = [part for part in split(default if before is None else before) if part]
    assert config.value is not None, config.name
    for part in split(config.value):
        if config.config_operation == Operation.APPEND and part not in parts:
            parts.append(part)
        elif config.config_operation == Operation.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _result(outcome: Outcome) -> _Result:
    code, message = (0, None) if outcome.refusal is None else (int(outcome.refusal.code), outcome.refusal.message)
    return _Result(code, message, outcome.resource.type, outcome.resource.name)
