"""The configuration of a placer."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.runtime.call_settings import CallSettings
from quorate.runtime.config import setting
from quorate.runtime.setting_types import ListenerAddress, integer, listener


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerConfig(CallSettings):
    """The settings of one placer."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Which copy this is, for logs and traces.", default=0)
    listeners: ListenerAddress = setting("listeners", listener(), "Where it listens.")
