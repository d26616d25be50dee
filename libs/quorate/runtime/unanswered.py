"""Tells of a service that reaches nobody: it may be ready for its callers, and yet have nothing to answer them with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from quorate.runtime.repeats import ChangeFilter

__all__ = ["ALONE_S", "Unanswered"]

ALONE_S: Final = 10.0
"""How long (s) nobody has answered when it is told first: a failover, or a start of all at once, takes less."""


class Unanswered:
    """Whether anybody of `servers` answers: told once that has lasted `ALONE_S`, once a minute, and when it is over.

    `missing` says in a line of the log what is not to be had, and `found` that it is.
    """

    def __init__(self, log: Any, servers: Sequence[str], *, missing: str, found: str) -> None:
        self._log = log
        self._servers = ", ".join(servers)
        self._missing = missing
        self._found = found
        self._filter = ChangeFilter()
        self._alone_since_s: float | None = None

    def failed(self, server: str, reason: str) -> None:
        """Notes that a server has not answered, or with nothing that is of use."""
        now_s = asyncio.get_running_loop().time()
        if self._alone_since_s is None:
            self._alone_since_s = now_s
        for_s = now_s - self._alone_since_s
        if for_s >= ALONE_S and self._filter.passes(self._missing, "", now_s):
            self._log.warning(
                self._missing, sought_at=self._servers, asked_last=server, reason=reason, for_s=round(for_s)
            )

    def answered(self) -> None:
        """Notes that a server has answered."""
        self._alone_since_s = None
        if self._filter.settle(self._missing):
            self._log.info(self._found, sought_at=self._servers)
