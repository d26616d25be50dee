"""Time and chance for what takes them from the machine: ids and backoffs come from the seed, times from the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import closing
from random import Random
from typing import Any, Final

import tenacity
from tenacity import wait

from quorate import random_uuid
from quorate.controller.engine import application
from quorate.liveness import claim
from services.controller import driver, own_placement, quorum_link
from services.gateway import heartbeats
from services.heartbeat import standing
from services.placer import servicer as placer

PAUSE_S_MAX: Final = 0.03
RECORDS_PER_STEP: Final = (1, 2, 1_000)
"""Most writes have few records: with 1,000 in a step they are applied in one."""
CLAIMS_IN_SESSION: Final = 9


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


def unhurried(random: Random) -> Callable[[Generator[None, None, Any]], Coroutine[Any, Any, Any]]:
    """What `in_turns` is on a busy machine: between two steps there is time, in which whatever may happen does."""

    async def in_turns(steps: Generator[None, None, Any]) -> Any:
        with closing(steps):
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value
                await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))

    return in_turns


def rule(patch: Any, stream: Callable[[str], Random], now_s: Callable[[], float]) -> None:
    """For as long as the patch holds."""
    patch.setattr(random_uuid, "secrets", Secrets(stream("new ids")))
    patch.setattr(random_uuid, "DRAWN", deque())
    patch.setattr(quorum_link, "getrandbits", stream("sessions").getrandbits)
    for module in (wait, placer, own_placement):
        patch.setattr(module, "random", Dice(stream(f"dice of {module.__name__}")))
    patch.setattr(tenacity, "time", Time(now_s))
    patch.setattr(driver, "in_turns", unhurried(stream("pauses in decisions")))
    patch.setattr(application, "RECORDS_PER_STEP", stream("records in a step").choice(RECORDS_PER_STEP))


def shorten_claims(patch: Any, *, session_ms: int) -> None:
    """As long in these sessions as they are in those of 9 s, and so the patience of who sends heartbeats."""
    every_ms = session_ms // CLAIMS_IN_SESSION
    patch.setattr(standing, "CLAIM_EVERY_MS", every_ms)
    patch.setattr(claim, "GAP_MS", every_ms * 3 // 2)
    patch.setattr(heartbeats, "PATIENCE_S", every_ms / 1_000)
    for module in (standing, claim):
        patch.setattr(module, "CLAIM_LAPSES_MS", 3 * every_ms)
