"""Long works that are under way at once: others have the loop after a step, and not after a step of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from typing import Final

from quorate.runtime.event_loop.turns import in_turns

WORKS: Final = 10
STEPS: Final = 20


async def test_all_long_works_do_one_step_in_a_turn_of_the_loop() -> None:
    """With tasks that are cancelled in between; and each of them gets on."""
    loop, passes, done = asyncio.get_running_loop(), 0, Counter[int]()
    in_pass, is_half = Counter[int](), asyncio.Event()

    def count() -> None:
        nonlocal passes, counting
        passes += 1
        counting = loop.call_soon(count)

    def work(number: int) -> Generator[None, None, int]:
        for _ in range(STEPS):
            yield
            done[number] += 1
            in_pass[passes] += 1
            if done[0] == STEPS // 2:
                is_half.set()
        return number

    counting = loop.call_soon(count)
    works = [asyncio.ensure_future(in_turns(work(number))) for number in range(WORKS)]
    await is_half.wait()
    at_half = dict(done)
    works.pop().cancel()
    found = await asyncio.gather(*works)
    counting.cancel()

    assert list(range(WORKS - 1)) == found
    assert {1} == set(in_pass.values())
    assert {STEPS // 2, STEPS // 2 - 1} >= set(at_half.values())
