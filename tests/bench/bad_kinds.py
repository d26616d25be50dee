"""All kinds of bad callers by name, and how a process of its own goes on with some of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tests.bench import (
    bad_neighbours,
    bad_neighbours_broker,
    bad_neighbours_grpc,
    bad_neighbours_http2,
    bad_neighbours_logins,
)
from tests.bench.bad_neighbours import Doors, Ends, Kind, go_on

KINDS: Final[Mapping[str, Kind]] = {
    **bad_neighbours.WIRE,
    **bad_neighbours_grpc.kinds(),
    **bad_neighbours_http2.kinds(),
    **bad_neighbours_logins.kinds(),
    **bad_neighbours_broker.kinds(),
}
TEN_BY_WIRE: Final = tuple(bad_neighbours.WIRE)[2:12]
"""Large requests, pipelined ones, answers that are not read, storms."""
TEN_BY_GRPC: Final = (
    "the controller's methods, from who has no right",
    "a quorum node's methods, from who has no right",
    "the observer's methods, from a user",
    "10,000 items of each method, from a user",
    "answers without a window",
    "requests a byte at a time",
    "connection storm by gRPC",
    "rapid resets",
    "passwords of nobody by Basic",
    "wrong passwords of one user by SCRAM-SHA-512",
)


async def _all_of(doors: Doors, names: Sequence[str], seconds: float) -> dict[str, Ends]:
    ends: dict[str, Ends] = {name: Counter() for name in names}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(go_on(doors, KINDS[name], ends[name]))
    return ends


def go_on_for(doors: Doors, names: Sequence[str], seconds: float) -> dict[str, Ends]:
    """These kinds at once, again and again for so many seconds, in this process; how their attempts have ended."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it says of each connection that it is gone
    return asyncio.run(_all_of(doors, names, seconds))


def prepare(names: Sequence[str]) -> None:
    """Makes in this process what these kinds send, so that `go_on_for` begins at once."""
    for name in names:
        KINDS[name].prepare()
