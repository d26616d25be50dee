"""Chunked changes: one change is written as many commands, one after the other, with other requests in between.

A broker with very many partitions is fenced so: each chunk leaves a state that is valid.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import Answer, QueueLimit
from services.controller.driver import ControllerDriver
from services.controller.outliving import to_the_end
from services.controller.pending import response_of

__all__ = ["write_in_chunks"]

UNDER_WAY_MAX: Final = 4
"""Chunks of one change that wait for their commit: the next is decided while these are replicated."""


async def write_in_chunks(
    driver: ControllerDriver, api: str, chunks: Iterable[Command[Any]], *, lane: QueueLimit = QueueLimit.CLUSTER
) -> Answer:
    """Writes the commands of a chunked change, and returns the answer of the last one once it is committed.

    Each is drawn from `chunks`, which must have one at least, when the one before has been decided. The change runs to
    its end even if the caller has gone. Raises ApiError as `ControllerDriver.write` does; the chunks that were written
    before stay.
    """
    return await to_the_end(_written(driver, api, iter(chunks), lane))


async def _written(driver: ControllerDriver, api: str, chunks: Iterator[Command[Any]], lane: QueueLimit) -> Answer:
    under_way: deque[asyncio.Future[Answer]] = deque()
    while (command := _next(driver, api, chunks)) is not None:
        under_way.append(await driver.begin(api, command, lane))
        await asyncio.sleep(0)  # lets other requests run between two chunks
        if len(under_way) > UNDER_WAY_MAX:
            response_of(await under_way.popleft())
    answers = [response_of(await answered) for answered in under_way]
    return answers[-1]


def _next(driver: ControllerDriver, api: str, chunks: Iterator[Command[Any]]) -> Command[Any] | None:
    """Draws the next command; an exception of the iterator counts as a failed decision. Raises ApiError."""
    try:
        return next(chunks, None)
    except Exception as cause:  # as in the engine
        raise driver.failed_beside(cause, f"{api} in chunks") from None
