"""What a placer has to be told."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.runtime.config import setting
from quorate.runtime.kinds import Listener, integer, listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one placer."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Which copy this is, for logs and traces.", default=0)
    listeners: Listener = setting("listeners", listener(), "Where it listens.")
