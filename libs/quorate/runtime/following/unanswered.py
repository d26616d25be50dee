"""Tells of a service that reaches nobody: it may be ready for its callers, and yet have nothing to answer them with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from quorate.runtime.logging.repeats import AT_START_S, ChangeFilter

__all__ = ["Unanswered"]


class Unanswered:
    """Logs that none of `servers` answers: once that has lasted `AT_START_S`, then once a minute, and when it is over.

    `missing` is the warning's text, and `found` that of the line when one answers again.
    """

    def __init__(self, log: Any, servers: Sequence[str], *, missing: str, found: str) -> None:
        self._log = log
        self._servers = ", ".join(servers)
        self._missing = missing
        self._found = found
        self._filter = ChangeFilter(after_s=AT_START_S)

    def failed(self, server: str, reason: str) -> None:
        """Notes that a server has given no useful answer, for this `reason`; logs the warning if it is due."""
        now_s = asyncio.get_running_loop().time()
        if self._filter.passes(self._missing, "", now_s):
            for_s = round(self._filter.lasts_s(self._missing, now_s))
            self._log.warning(self._missing, sought_at=self._servers, asked_last=server, reason=reason, for_s=for_s)

    def answered(self) -> None:
        """Notes that a server has answered: the next silence counts from its begin. Logs it after a warning."""
        if self._filter.settle(self._missing):
            self._log.info(self._found, sought_at=self._servers)
