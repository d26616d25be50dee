"""AlterConfigs (33): replaces all configs of a resource by those listed. KIP-133; superseded by KIP-339."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from kraft.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from quorate.controller.configs.config_changes import Changes, ConfigRequest, alter
from quorate.controller.configs.kinds import said
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, dry
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import ConfigResource
from quorate.metadata.state import ClusterState

__all__ = ["alter_configs"]

_Asked: TypeAlias = AlterConfigsRequest.AlterConfigsResource
_Config: TypeAlias = AlterConfigsRequest.AlterConfigsResource.AlterableConfig
_Result: TypeAlias = AlterConfigsResponse.AlterConfigsResourceResponse


def alter_configs(request: AlterConfigsRequest, *, settings: ControllerSettings) -> Command[AlterConfigsResponse]:
    """Returns the command that sets the listed configs of each resource in `request`, and deletes its others.

    Each resource succeeds or fails by itself. With `validate_only` nothing is written.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[AlterConfigsResponse]]:
        outcomes, records = yield from alter(state, map(_asked, request.resources), settings)
        response = AlterConfigsResponse(responses=tuple(_Result(*each.fields) for each in outcomes))
        decision = Decision(response, tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def _asked(asked: _Asked) -> ConfigRequest:
    resource = ConfigResource(asked.resource_type, asked.resource_name)
    names, values = tuple(each.name for each in asked.configs), tuple(each.value for each in asked.configs)
    return ConfigRequest(resource, names, values, partial(_changes, resource, asked.configs))


def _changes(resource: ConfigResource, configs: tuple[_Config, ...], before: Mapping[str, str]) -> Changes:
    """Returns the listed configs in their order, then deletions (None) of the others that are set, sorted by name.

    Raises ApiError(INVALID_REQUEST) for a listed config without a value.
    """
    without = [each.name for each in configs if each.value is None]
    if without:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{said(resource)}: no value for {', '.join(without)}; leave out a config that is to be removed",
        )
    listed = {each.name: each.value for each in configs}
    assert len(listed) == len(configs), f"`alter` has refused doubles: {resource}, {list(listed)}, {len(configs)}"
    changes = {**listed, **{name: None for name in sorted(before) if name not in listed}}
    assert changes.keys() >= before.keys(), (
        f"what is not listed is removed: {resource}, {list(before)}, {list(changes)}"
    )
    return changes
