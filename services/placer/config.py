"""The configuration of a placer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.runtime.access.guard import GuardedSettings
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import integer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerConfig(GuardedSettings):
    """The settings of one placer."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Which copy this is, for logs and traces.", default=0)

    def problems(self) -> Iterator[str]:
        """Yields a message for each rule about listeners that the settings violate."""
        return self.security_problems()
