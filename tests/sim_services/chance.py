"""Time and chance for what takes them from the machine: ids and backoffs come from the seed, times from the loop."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import tenacity
from tenacity import wait

from quorate.runtime import log_reader
from services.controller import quorum_link, registration
from services.controller.handlers import kinds
from services.placer import servicer as placer


class Secrets:
    """What `secrets` is asked for."""

    def __init__(self, random: Random) -> None:
        self.token_bytes = random.randbytes


class Dice:
    """What `random` is asked for."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.uniform = random.uniform

    def Random(self) -> Random:
        """A source of its own."""
        return Random(self._random.random())


class Time:
    """What `time` is asked for."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.monotonic = now_s


def rule(patch: Any, stream: Callable[[str], Random], now_s: Callable[[], float]) -> None:
    """For as long as the patch holds."""
    for module in (log_reader, registration, kinds):
        patch.setattr(module, "secrets", Secrets(stream(f"secrets of {module.__name__}")))
    patch.setattr(quorum_link, "getrandbits", stream("sessions").getrandbits)
    for module in (wait, placer):
        patch.setattr(module, "random", Dice(stream(f"dice of {module.__name__}")))
    patch.setattr(tenacity, "time", Time(now_s))
