"""Good callers beside each kind of bad one get all their answers, and memory stays below the chart's limits.

The short form of `make neighbours`: counts instead of times, on one plane with one of each service. Bad callers are in
this process and go on until the good ones have what they asked for; and each has done what it is for, or been refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import pytest
import pytest_asyncio

from tests.bench.bad_neighbours import BAD, BROKER, WIRE, Ends, Kind, go_on
from tests.bench.bad_neighbours_grpc import (
    ANSWERED,
    DEAREST,
    NO_DOOR,
    NOBODY,
    REFUSED,
    TOO_LARGE,
    every_method,
    user_at_the_limit,
)
from tests.bench.bad_neighbours_http2 import kinds as http2_kinds
from tests.bench.bad_neighbours_logins import kinds as login_kinds
from tests.bench.good_neighbours import Beside, Good
from tests.bench.neighbours import BACK_MIB, Side, clear_peaks, our_side, peaks, sizes
from tests.e2e.calls import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]
PLAIN_PROCESSES = True  # their memory is measured

ASKED: Final = 2
"""Requests of each good caller beside each family of bad ones."""
USERS: Final = 60
AT_ONCE: Final = 10
"""Connections of a kind of HTTP/2: with 32 streams each, these are more than `max.streams.per.ip`."""
SERVICES: Final = ("controller", "quorum", "heartbeat", "placer", "observer")
BY_GRPC: Final[Mapping[str, Kind]] = {
    "nobody": every_method("controller", NOBODY, "DeleteAcls", ends=[NO_DOOR], at_once=1),
    **{f"{at}, from who has no right": every_method(at, BAD, *DEAREST, ends=[REFUSED], at_once=1) for at in SERVICES},
    "a broker": every_method("heartbeat", BROKER, *DEAREST, ends=[ANSWERED, TOO_LARGE], at_once=1),
    "a user": user_at_the_limit(at_once=1),
}
ELSEWHERE: Final = ("connection storm by gRPC", "rapid resets", "announced giants by gRPC", "pings")
"""What `tests.fuzz.test_storms` does to a service, and takes much CPU."""
BY_HTTP2: Final = {name: kind for name, kind in http2_kinds(at_once=AT_ONCE, many=20).items() if name not in ELSEWHERE}
LOGINS: Final = login_kinds(logins=5, begun=20, calls=10)
TEN: Final = (
    *("1.4 million empty quotas", "8,000 pipelined requests", "20,000 ACLs to create"),
    *("quorum, from who has no right", "a user", "nobody"),
    *("answers without a window", "requests a byte at a time"),
    *("passwords of nobody by Basic", "wrong passwords of one user by SCRAM-SHA-512"),
)
FAMILIES: Final[Mapping[str, Mapping[str, Kind]]] = {
    "large and dear requests by gRPC": BY_GRPC,
    "HTTP/2": BY_HTTP2,
    "logins": LOGINS,
    "ten at once": {
        name: replace({**WIRE, **BY_GRPC, **BY_HTTP2, **LOGINS}[name], at_once=1 + (name in BY_HTTP2)) for name in TEN
    },
}


@dataclass(frozen=True)
class Measured:
    """A plane, and the MiB of its processes after the first answers to good callers."""

    side: Side
    begun_mib: Mapping[str, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Measured]:
    async with our_side(tmp_path_factory.mktemp("neighbours"), voters=1, users=USERS) as side:
        await asyncio.gather(*map(_ask, _good(side)))
        yield Measured(side, sizes(side.pids))


def _good(side: Side) -> list[Good]:
    return [caller for beside in Beside for caller in side.good(beside)]


async def _ask(caller: Good) -> int:
    """How many requests were answered; none may be refused."""
    try:
        for _ in range(ASKED):
            await caller.ask()
    finally:
        await caller.close()
    return ASKED


async def _beside(side: Side, kinds: Mapping[str, Kind]) -> tuple[list[int], dict[str, Ends]]:
    """The answers of the good callers, and how the attempts of the bad ones have ended by then."""
    ends: dict[str, Ends] = {name: Counter() for name in kinds}

    async def unseen() -> dict[str, Ends]:
        return {name: ends[name] for name, kind in kinds.items() if not kind.ends <= ends[name].keys()}

    async with asyncio.TaskGroup() as tasks:
        bad = [tasks.create_task(go_on(side.doors, kind, ends[name])) for name, kind in kinds.items()]
        answers = await asyncio.gather(*map(_ask, _good(side)))
        with suppress(AssertionError):  # which of them were not seen, is printed below
            await eventually(unseen, lambda found: not found)
        for each in bad:
            each.cancel()
    return answers, await unseen()


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_good_get_all_their_answers_beside_bad_callers(measured: Measured, family: str) -> None:
    """And each of the bad ones has done what it is for, or was refused, before it ends."""
    side, kinds = measured.side, FAMILIES[family]
    for each in kinds.values():
        each.prepare()
    clear_peaks(side.pids)
    answers, unseen = await _beside(side, kinds)

    assert {ASKED} == set(answers)
    assert {} == unseen
    assert {} == {each: peak for each, peak in peaks(side.pids).items() if peak > side.limits[each]}


async def test_memory_is_back_after_all_of_them(measured: Measured) -> None:
    async def kept() -> dict[str, int]:
        more = {name: now - measured.begun_mib[name] for name, now in sizes(measured.side.pids).items()}
        return {name: mib for name, mib in more.items() if mib > BACK_MIB}

    assert {} == await eventually(kept, lambda found: not found)
