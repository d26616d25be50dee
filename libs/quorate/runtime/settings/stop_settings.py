"""The setting of every service that says how long a process which is asked to stop waits for what is under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import milliseconds

__all__ = ["GRACEFUL_MS", "STOP_TIMEOUT", "StopSettings"]

GRACEFUL_MS: Final = 5_000
STOP_TIMEOUT: Final = "shutdown.graceful.timeout.ms"
"""Kafka's controllers have no such setting; Connect has `task.shutdown.graceful.timeout.ms`, with this default, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSettings:
    """How long a stop may take, in a service's Config as a base class."""

    graceful_ms: int = setting(
        STOP_TIMEOUT,
        milliseconds(),
        "How long a stop waits for calls under way, and a leader for its voters' answers; then these calls are cut.",
        default=GRACEFUL_MS,
    )

    @property
    def graceful_s(self) -> float:
        """`shutdown.graceful.timeout.ms` in seconds."""
        return self.graceful_ms / 1000
