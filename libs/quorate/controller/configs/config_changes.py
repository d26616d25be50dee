"""Config changes: validates the changes of AlterConfigs and IncrementalAlterConfigs, and makes the ConfigRecords.

Each resource succeeds or fails by itself. Kafka validates in two places: in the broker that forwards a request, and in
the controller. Here requests come without a broker in between, so both are done here. KIP-133, KIP-226, KIP-339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft import Message
from quorate.controller.configs.kinds import Change, kind_of, said
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.topic import MIN_INSYNC_REPLICAS
from quorate.controller.configs.values import VALUE_CHARS_MAX, is_too_long, items
from quorate.controller.engine.steps import ITEMS_PER_STEP, Steps
from quorate.controller.policies import ConfigChange
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER, TOPIC, ConfigResource
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import CORDONED_DIRECTORIES, release_of
from quorate.records import ClearElrRecord, ConfigRecord
from quorate.wire.items import Items, each_in_steps

__all__ = ["CORDONED_LOG_DIRS", "Changes", "ConfigRequest", "Outcome", "alter", "check_length", "cleared"]

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
CHARS_PER_ITEM: Final = 256
"""The characters of a list that cost as much as another config."""

Changes: TypeAlias = Mapping[str, str | None]
"""By config name: the value to set, or None to delete it; in the order of the records."""


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """One resource of a request: the config names and values that it lists, and a function that computes its changes.

    `changes` takes the configs that are set now and returns what to set and to delete; it raises ApiError if the
    request is invalid.
    """

    resource: ConfigResource
    names: tuple[str, ...]
    values: tuple[str | None, ...]
    changes: Callable[[Mapping[str, str]], Changes]

    @property
    def cost(self) -> int:
        """The cost of checking it: 1, and 1 for each config, and 1 for each `CHARS_PER_ITEM` characters of a value."""
        return 1 + sum(1 + len(value or "") // CHARS_PER_ITEM for value in self.values)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one resource; `refusal` is None on success."""

    resource: ConfigResource
    refusal: ApiError | None = None

    @property
    def fields(self) -> tuple[int, str | None, int, str]:
        """The fields that both APIs have for a resource: error code (0 on success), message, resource type and name."""
        code, message = (ErrorCode.NONE, None) if self.refusal is None else (self.refusal.code, self.refusal.message)
        return int(code), message, self.resource.type, self.resource.name


def alter(
    state: ClusterState, asked: Iterable[ConfigRequest], settings: ControllerSettings
) -> Steps[tuple[list[Outcome], list[Message]]]:
    """Decides config changes in steps. Returns one outcome per resource, in order, and the records to write.

    A resource fails by itself, and then has no record. One that is named twice fails and has one outcome, as in Kafka.
    Behind the ConfigRecords come the ClearElrRecords of `cleared`.
    """
    listed = yield from each_in_steps(lambda each: each, asked, Items())
    counts = Counter(each.resource for each in listed)
    outcomes: dict[ConfigResource, Outcome] = {}
    records: list[ConfigRecord] = []
    since_step = 0
    for each in listed:
        since_step += each.cost
        if since_step > 2 * ITEMS_PER_STEP:
            since_step = each.cost
            yield
        if each.resource in outcomes:
            continue
        before = len(records)
        try:
            _check_once(each.resource, counts[each.resource])
            records += _records(state, each, settings)
            outcomes[each.resource] = Outcome(each.resource)
        except ApiError as refusal:
            assert len(records) == before, f"refused, and changed all the same: {each.resource}"
            outcomes[each.resource] = Outcome(each.resource, refusal.as_value())
    assert list(outcomes) == list(counts), (list(outcomes), list(counts))
    changed = {(record.resource_type, record.resource_name, record.name) for record in records}
    assert len(changed) == len(records), f"a config changes twice: {len(records)} records of {len(changed)} configs"
    if len(listed) > ITEMS_PER_STEP:
        yield
    return list(outcomes.values()), [*records, *cleared(state, records)]


def _check_once(resource: ConfigResource, count: int) -> None:
    if count > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{said(resource)} is in the request {count} times; it may be there once"
        )


def _records(state: ClusterState, asked: ConfigRequest, settings: ControllerSettings) -> Iterator[ConfigRecord]:
    resource = asked.resource
    kind = kind_of(resource)
    _check_names(asked)
    before = state.configs.of(*resource)
    # Unchanged values are written for brokers, as in Kafka: a broker reloads its key stores when their configs are set
    # again.
    changes = {
        name: value
        for name, value in asked.changes(before).items()
        if resource.type == BROKER or value != before.get(name)
    }
    # From here on the checks are in Kafka's order, so that a change with two faults gets the same error.
    for name, value in changes.items():
        _check_change(state, resource, name, value)
    kind.check_name(resource.name)
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}
    given = {name: value for name, value in changes.items() if value is not None}
    kind.check_change(
        Change(state=state, settings=settings, resource=resource, before=before, given=given, after=after)
    )
    kind.check_exists(state, resource.name)
    if settings.alter_config_policy is not None:
        # As in Kafka, a policy does not see a config that is deleted only because AlterConfigs does not list it.
        named = {name: value for name, value in changes.items() if name in asked.names}
        settings.alter_config_policy.validate(ConfigChange(resource=resource, configs=named))
    for name, value in changes.items():
        yield ConfigRecord(resource.type, resource.name, name, value)


def _check_names(asked: ConfigRequest) -> None:
    twice = [name for name, count in Counter(asked.names).items() if count > 1]
    if twice:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{said(asked.resource)}: {', '.join(twice)} is in its configs more than once"
        )


def _check_change(state: ClusterState, resource: ConfigResource, name: str, value: str | None) -> None:
    if value is not None:
        check_length(resource, name, value)
    if resource.type != BROKER:
        return
    if name == MIN_INSYNC_REPLICAS and state.features.elr_enabled:
        _check_min_insync_replicas(resource, value)
    if name == CORDONED_LOG_DIRS:
        _check_cordoned(state, resource, value)


def check_length(resource: ConfigResource, name: str, value: str) -> None:
    """Raises ApiError(INVALID_CONFIG) if the value of config `name` has more than `VALUE_CHARS_MAX` characters."""
    if is_too_long(value):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{said(resource)}: {name} has a value of more than {VALUE_CHARS_MAX} characters, which is the limit",
        )


def _check_min_insync_replicas(resource: ConfigResource, value: str | None) -> None:
    """With ELR, allows min.insync.replicas only as a cluster-wide value, since all brokers must use the same.

    KIP-966.
    """
    if resource.name:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{said(resource)}: {MIN_INSYNC_REPLICAS} cannot be set for one broker "
            "while eligible leader replicas are enabled",
        )
    if value is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{said(resource)}: {MIN_INSYNC_REPLICAS} cannot be deleted while eligible leader replicas are enabled",
        )


def _check_cordoned(state: ClusterState, resource: ConfigResource, value: str | None) -> None:
    """Checks cordoned.log.dirs: only the broker itself may add directories; a request may remove some. KIP-1066."""
    if state.features.record_level < CORDONED_DIRECTORIES:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{said(resource)}: {CORDONED_LOG_DIRS} needs metadata.version {release_of(CORDONED_DIRECTORIES)}; "
            f"this cluster is at {release_of(state.features.record_level)}",
        )
    present = set(items(state.configs.of(*resource).get(CORDONED_LOG_DIRS, "")))
    added = [each for each in items(value or "") if each not in present]
    if added:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{said(resource)}: {', '.join(added)} can be added to {CORDONED_LOG_DIRS} by the broker itself only",
        )


def cleared(state: ClusterState, records: Iterable[ConfigRecord]) -> Iterator[ClearElrRecord]:
    """Yields a ClearElrRecord for each record of min.insync.replicas, as ELR membership depends on it. KIP-966.

    It yields none if the ELR feature is off and no partition has an ELR.

    As in Kafka, no partition is re-evaluated here; its leader's next AlterPartition does that. If the feature was
    turned off, Kafka keeps a remaining ELR; but with a smaller minimum the ISR commits records that the ELR members
    lack.
    """
    if not state.features.elr_enabled and not state.topics.has_elr:
        return
    for record in records:
        if record.name == MIN_INSYNC_REPLICAS:
            yield ClearElrRecord(record.resource_name if record.resource_type == TOPIC else "")
