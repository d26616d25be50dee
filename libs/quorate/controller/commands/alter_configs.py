"""AlterConfigs (33): a resource has what is listed, and nothing else. KIP-133; KIP-339 has the better way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from kraft.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from quorate.controller.config_changes import Asked, Changes, Outcome, alter
from quorate.controller.configs.kinds import said
from quorate.controller.decision import Command, Decision, Moment, dry
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import Resource
from quorate.metadata.state import ClusterState

__all__ = ["alter_configs"]

_Asked: TypeAlias = AlterConfigsRequest.AlterConfigsResource
_Config: TypeAlias = AlterConfigsRequest.AlterConfigsResource.AlterableConfig
_Result: TypeAlias = AlterConfigsResponse.AlterConfigsResourceResponse


def alter_configs(request: AlterConfigsRequest, *, settings: Settings) -> Command[AlterConfigsResponse]:
    """The command that replaces the configs of the resources of `request`, each by itself."""

    def command(state: ClusterState, _: Moment) -> Decision[AlterConfigsResponse]:
        outcomes, records = alter(state, map(_asked, request.resources), settings)
        response = AlterConfigsResponse(responses=tuple(map(_result, outcomes)))
        decision = Decision(response, tuple(records))
        return dry(decision) if request.validate_only else decision

    return command


def _asked(asked: _Asked) -> Asked:
    resource = Resource(asked.resource_type, asked.resource_name)
    return Asked(resource, tuple(each.name for each in asked.configs), partial(_changes, resource, asked.configs))


def _changes(resource: Resource, configs: tuple[_Config, ...], before: Mapping[str, str]) -> Changes:
    """What is listed, as it is listed; then what goes, by name."""
    without = [each.name for each in configs if each.value is None]
    if without:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{said(resource)}: no value for {', '.join(without)}; what shall go is left out",
        )
    listed = {each.name: each.value for each in configs}
    return {**listed, **{name: None for name in sorted(before) if name not in listed}}


def _result(outcome: Outcome) -> _Result:
    code, message = (0, None) if outcome.refusal is None else (int(outcome.refusal.code), outcome.refusal.message)
    return _Result(code, message, outcome.resource.type, outcome.resource.name)
