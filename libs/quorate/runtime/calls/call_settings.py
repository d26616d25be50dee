"""The settings of every service that limit concurrent calls."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.runtime.calls.admission import DEFAULT_LIMITS, CallLimits
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import integer
from quorate.runtime.settings.stop_settings import StopSettings

__all__ = ["CallSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings(StopSettings):
    """The call limits in a service's Config, as a base class: of each purpose (health, peers, heartbeats …)."""

    max_calls: int = setting(
        "max.calls",
        integer(1, 2**31 - 1),
        "How many calls of one purpose may be under way; more are refused.",
        default=DEFAULT_LIMITS.calls,
    )
    max_calls_per_ip: int = setting(
        "max.calls.per.ip",
        integer(1, 2**31 - 1),
        "How many of them one address may have.",
        default=DEFAULT_LIMITS.calls_per_ip,
    )
    max_streams: int = setting(
        "max.streams",
        integer(1, 2**31 - 1),
        "How many of max.calls may be streams, which may stay for ever.",
        default=DEFAULT_LIMITS.streams,
    )
    max_streams_per_ip: int = setting(
        "max.streams.per.ip",
        integer(1, 2**31 - 1),
        "How many of max.calls.per.ip may be streams.",
        default=DEFAULT_LIMITS.streams_per_ip,
    )

    @property
    def call_limits(self) -> CallLimits:
        """The call limits for the server, from these settings."""
        return CallLimits(
            calls=self.max_calls,
            calls_per_ip=self.max_calls_per_ip,
            streams=self.max_streams,
            streams_per_ip=self.max_streams_per_ip,
        )
