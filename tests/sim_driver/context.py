"""What gRPC tells a servicer of the call that it answers, and what it says beside its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

Metadata = tuple[tuple[str, str | bytes], ...]


class CallContext:
    """One call; `left_s` is what is left of its deadline when it comes, by the clock `now_s` of the answering node."""

    def __init__(
        self, path: str, host: int, metadata: Metadata, left_s: float | None, now_s: Callable[[], float]
    ) -> None:
        self.path = path
        self.trailing: Metadata = ()
        self.passed_on: list[Any] = []
        """The calls by which this one was handed over, in order."""
        self._host = host
        self._metadata = metadata
        self.came_s = now_s()
        self._now_s = now_s
        self._ends_s = None if left_s is None else now_s() + left_s

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def time_remaining(self) -> float | None:
        return None if self._ends_s is None else max(0.0, self._ends_s - self._now_s())

    def peer(self) -> str:
        return f"ipv4:10.0.{self._host // 256}.{self._host % 256}:5000"

    def auth_context(self) -> dict[str, list[bytes]]:
        """Nobody shows a certificate."""
        return {}

    def set_trailing_metadata(self, trailing: Sequence[tuple[str, str | bytes]]) -> None:
        self.trailing = tuple(trailing)


SERVED: Final[ContextVar[CallContext | None]] = ContextVar("served", default=None)
"""The call that the present task answers, or was begun for."""
