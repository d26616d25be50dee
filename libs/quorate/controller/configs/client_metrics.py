"""Configs of client metrics subscriptions: which metrics to collect, from which clients, how often. KIP-714."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.controller.configs.values import Set, Source, Values, integer, items, names, trim, whole
from quorate.errors import ApiError, ErrorCode

__all__ = ["CONFIGS", "ClientMetricsConfig", "candidates", "check"]

INTERVAL_MS: Final = range(100, 3_600_001)
PARAMETERS: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The client parameters that a `match` pattern may use."""

PATTERN_CHARS_MAX: Final = 1_000
"""The longest pattern: one of 32,767 characters takes the controller 0.1 s to compile, and a request has a hundred."""


@dataclass(frozen=True, slots=True)
class ClientMetricsConfig:
    """One config key of a client metrics subscription (KIP-714): its name, valid values and default."""

    name: str
    values: Values
    default: str


def check(values: Mapping[str, str]) -> None:
    """Checks all configs of a subscription, with Kafka's error codes.

    Raises ApiError: INVALID_REQUEST for an unknown config or an interval.ms out of range; INVALID_CONFIG for a value of
    the wrong type, or a match that is not parameter=pattern.
    """
    unknown = sorted(values.keys() - CONFIGS.keys())
    if unknown:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{unknown[0]!r} is no config of a subscription; there are {', '.join(CONFIGS)}"
        )
    for name, value in values.items():
        if not CONFIGS[name].values.takes(value):
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name}={value!r}: it must be {CONFIGS[name].values.rule}")
    interval = values.get("interval.ms")
    if interval is not None and whole(interval) not in INTERVAL_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"interval.ms={interval!r}: it must be a whole number from {INTERVAL_MS[0]} to {INTERVAL_MS[-1]}",
        )
    for criterion in items(values.get("match", "")):
        if not _is_criterion(criterion):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"match with {criterion!r}: it must be parameter=pattern, with one of {', '.join(PARAMETERS)} and a "
                f"regular expression of at most {PATTERN_CHARS_MAX} characters",
            )


def candidates(config: ClientMetricsConfig, subscription: Mapping[str, str]) -> Iterator[Set]:
    """Yields the value that `subscription` sets for `config`, if it does; as in Kafka, no default is listed."""
    if config.name in subscription:
        yield Set(config.name, subscription[config.name], Source.CLIENT_METRICS)


_OF_JAVA_ONLY: Final = re.compile(r"\\[pPQEhHRXGzkKN]|&&|\(\?<[A-Za-z]|\[.*\[")
"""Regular expression syntax that Java supports and Python does not, or interprets differently."""


def _is_criterion(text: str) -> bool:
    parts = text.split("=")
    if len(parts) != 2 or not parts[1] or trim(parts[0]) not in PARAMETERS:
        return False
    pattern = trim(parts[1])
    if len(pattern) > PATTERN_CHARS_MAX:
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        # Brokers compile it with Java, so a pattern that only Java accepts is not refused here.
        return _OF_JAVA_ONLY.search(pattern) is not None
    return True


CONFIGS: Final[Mapping[str, ClientMetricsConfig]] = {
    config.name: config
    for config in (
        ClientMetricsConfig("interval.ms", integer(), "300000"),
        ClientMetricsConfig("match", names(twice=True), ""),
        ClientMetricsConfig("metrics", names(twice=True), ""),
    )
}
"""All configs of a subscription by name, sorted."""

assert list(CONFIGS) == sorted(CONFIGS), list(CONFIGS)
for _each in CONFIGS.values():
    assert _each.values.takes(_each.default), _each
assert int(CONFIGS["interval.ms"].default) in INTERVAL_MS, CONFIGS["interval.ms"]
