"""A time limit of a block: its end, and the cancellations that are somebody else's."""

from __future__ import annotations

import asyncio

import pytest

from quorate.runtime.event_loop.limit import Limit


async def test_a_block_ends_with_its_time_and_the_task_goes_on() -> None:
    loop = asyncio.get_running_loop()
    limit = Limit(loop, loop.time())
    with pytest.raises(TimeoutError), limit:
        await loop.create_future()

    assert limit.has_expired
    await asyncio.sleep(0)  # nobody cancels it any more


async def test_a_block_that_is_over_in_time_is_not_ended() -> None:
    loop = asyncio.get_running_loop()
    for when in (None, loop.time()):
        limit = Limit(loop, when)
        with limit:
            pass
        for _ in range(3):  # turns of the loop in which it would end something
            await asyncio.sleep(0)

        assert not limit.has_expired


async def test_a_limit_that_is_lifted_does_not_end_its_block() -> None:
    loop = asyncio.get_running_loop()
    limit = Limit(loop, loop.time())
    with limit:
        limit.lift()
        for _ in range(3):
            await asyncio.sleep(0)

    assert not limit.has_expired


async def test_a_cancellation_by_somebody_else_stays_one() -> None:
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()
    limit = Limit(loop, loop.time())

    async def work() -> None:
        with limit:
            begun.set()
            await loop.create_future()

    task = asyncio.ensure_future(work())
    await begun.wait()
    for _ in range(100):
        if limit.has_expired:
            break
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_inner_limit_leaves_the_cancellation_of_the_outer_one() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError) as ended, Limit(loop, loop.time()), Limit(loop, loop.time() + 60):
        await loop.create_future()

    assert isinstance(ended.value.__cause__, asyncio.CancelledError)
