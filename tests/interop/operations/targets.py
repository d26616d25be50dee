"""Whom the script is played to: a quorum with its active controller, asked in its own protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kraft import Message
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.errors import ErrorCode
from quorate.nouns import NodeId, Offset
from tests.interop.operations.followed import Followed
from tests.interop.operations.step import View

BEAT_EVERY_S: Final = 0.5
LOOK_EVERY_S: Final = 0.05
WITHIN_S: Final = 120.0
"""How long a target may take to come to something by itself; a session's end is the longest of these."""

_FOLLOWED: Final[dict[Path, Followed]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a request: an answer, or a refusal as a whole where the protocol has a place for one."""

    response: Message | None = None
    refusal: ErrorCode | None = None


class Target(Protocol):
    """One control plane."""

    name: str

    @property
    def active_id(self) -> NodeId:
        """The controller that is active, and asked."""
        ...

    @property
    def log_dir(self) -> Path:
        """The directory of the voter that leads."""
        ...

    @property
    def acknowledged(self) -> Offset:
        """An offset below which everything is that was ever answered."""
        ...

    async def ask(self, request: Message, *, version: int | None = None) -> Outcome:
        """One request to the controllers, or to the service that hears heartbeats."""
        ...


async def view_of(target: Target) -> View:
    """The target's state with all that it has answered, read from its log."""
    return await until(target, lambda view: view.offset >= target.acknowledged)


async def until(target: Target, holds: Callable[[View], bool]) -> View:
    """The first view that is so. AssertionError if it takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WITHIN_S
    while True:
        view = _read(target)
        if holds(view):
            return view
        assert loop.time() < deadline, f"{target.name}: not so after {WITHIN_S:g} s, at offset {view.offset}"
        await asyncio.sleep(LOOK_EVERY_S)


def _read(target: Target) -> View:
    if target.log_dir not in _FOLLOWED:
        _FOLLOWED[target.log_dir] = Followed(target.log_dir)
    return _FOLLOWED[target.log_dir].view(target.active_id)


class Heartbeats:
    """The brokers' stand-ins of one target that are alive: each is heard of every half second."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._alive: set[NodeId] = set()
        self._task: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()

    def begin(self, *brokers: NodeId) -> None:
        self._alive |= set(brokers)
        self._task = self._task or asyncio.ensure_future(self._beat_for_ever())

    async def end(self, *brokers: NodeId) -> None:
        """Nothing more is sent for them, and what was is answered."""
        self._alive -= set(brokers)
        async with self._asking:
            pass

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat_for_ever(self) -> None:
        while True:
            view = await view_of(self._target)
            for broker_id in sorted(self._alive):
                async with self._asking:
                    if broker_id in self._alive and broker_id in view.state.brokers:
                        await self._target.ask(heartbeat(view, broker_id))
            await asyncio.sleep(BEAT_EVERY_S)


def heartbeat(view: View, broker_id: NodeId, *, want_fence: bool = False, want_shut_down: bool = False) -> Message:
    """What a broker says that has applied all that there is."""
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=view.broker_epoch(broker_id),
        current_metadata_offset=view.offset - 1,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )
