"""One burst: many inputs at one door, and how each ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

import grpc

from tests.fuzz.inputs import Inputs, Words
from tests.fuzz.rpcs import Rpc

SIDE_BY_SIDE: Final = 24
PATIENCE_S: Final = 2.0
"""A call that waits for what never comes (a fetch at the end of the log, a voter that is not there) is given up."""
LOOK_S: Final = 0.05
"""How long the answers of a stream are read."""
ANSWERS_MAX: Final = 20

UNMEANT: Final = frozenset({"UNKNOWN", "INTERNAL", "DATA_LOSS"})
"""Statuses that no input may end with."""
OF_THE_CLIENT: Final = "Internal error from Core"
"""What grpc's own client says when it still sends into a stream that the server has ended. No server sends it."""
JUSTIFIED: Final[Mapping[tuple[str, str], str]] = {}
"""(path, status) → why it may be."""


@dataclass(slots=True)
class Outcome:
    """How the inputs of a burst ended: `unmeant` has those that no input may end with, as text."""

    inputs: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    unmeant: list[str] = field(default_factory=list)


async def burst(channel: grpc.aio.Channel, rpc: Rpc, words: Words, *, seed: str, count: int) -> Outcome:
    """`count` calls of one RPC, each with inputs of its own."""
    outcome = Outcome()
    inputs = Inputs(rpc, words, Random(seed))
    places = iter(range(count))

    async def worker() -> None:
        for place in places:
            sent = [inputs.draw() for _ in range(1 + place % 4 if rpc.sends_stream else 1)]
            outcome.inputs += len(sent)
            status = await _ended(channel, rpc, sent)
            outcome.statuses[status.partition(":")[0]] += 1
            if OF_THE_CLIENT in status:
                continue
            if status.partition(":")[0] in UNMEANT and (rpc.path, status.partition(":")[0]) not in JUSTIFIED:
                shown = " ".join(each[:400].hex() for each in sent)
                outcome.unmeant.append(f"{rpc.path} {seed} call {place}: {status[:300]} after {shown}")

    await asyncio.gather(*(worker() for _ in range(min(SIDE_BY_SIDE, count))))
    return outcome


async def _ended(channel: grpc.aio.Channel, rpc: Rpc, sent: list[bytes]) -> str:
    """The status of one call, with its details."""
    try:
        if not rpc.sends_stream and not rpc.answers_stream:
            await channel.unary_unary(rpc.path)(sent[0], timeout=PATIENCE_S)
        elif rpc.sends_stream and not rpc.answers_stream:
            await channel.stream_unary(rpc.path)(_each(sent), timeout=PATIENCE_S)
        else:
            return await _listened(channel, rpc, sent)
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
    return "OK"


async def _listened(channel: grpc.aio.Channel, rpc: Rpc, sent: list[bytes]) -> str:
    if rpc.sends_stream:
        call = channel.stream_stream(rpc.path)(_each(sent), timeout=PATIENCE_S)
    else:
        call = channel.unary_stream(rpc.path)(sent[0], timeout=PATIENCE_S)
    try:
        async with asyncio.timeout(LOOK_S):
            for _ in range(ANSWERS_MAX):
                if await call.read() is grpc.aio.EOF:
                    break
    except TimeoutError:
        pass
    finally:
        call.cancel()
    return f"{(await call.code()).name}: {await call.details()}"


async def _each(sent: list[bytes]) -> AsyncIterator[bytes]:
    for data in sent:
        yield data
