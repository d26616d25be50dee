"""A write fails inside the active controller: nothing of it is seen by anybody, and others go on."""

from __future__ import annotations

import asyncio

import pytest

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.requests.statuses import is_retriable
from tests.e2e.cluster import Cluster, others
from tests.e2e.writer import Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FAILED = 1
ENOUGH = 10
"""Writes before the one that fails: the controller has its registration and its first chores behind it."""
TRIES = 4 * ENOUGH
"""Some may end with an election that nobody meant."""


async def ends_before_it_leads(cluster: Cluster, victim: int) -> bool:
    """Passes the leadership to one controller. On a slow machine the write that fails may be one of its chores."""
    leading = asyncio.ensure_future(cluster.pass_leadership(to=[victim]))
    ending = asyncio.ensure_future(cluster.ended(cluster.controller(victim)))
    try:
        await asyncio.wait({leading, ending}, return_when=asyncio.FIRST_COMPLETED)
        if leading.done():
            leading.result()
        return ending.done()
    finally:
        leading.cancel()
        ending.cancel()
        await asyncio.gather(leading, ending, return_exceptions=True)


async def failed(cluster: Cluster, writer: Writer, place: str) -> tuple[int, str]:
    """Has one controller fail there, and says which, and the topic that was asked of it then."""
    victim = min(others(await cluster.active()))
    failpoints = f"{place}:eio@{ENOUGH}"
    await cluster.kill(cluster.controller(victim))
    await cluster.restart(cluster.controller(victim), failpoints=failpoints)
    await caught_up(cluster)
    for number in range(TRIES):
        while await ends_before_it_leads(cluster, victim):
            await cluster.restart(cluster.controller(victim), failpoints=failpoints)
        name = f"{place}-{number}"
        writer.tried.append(name)
        try:
            await cluster.create_once(name, at=victim)
        except ApiError as error:
            if is_retriable(error):
                continue  # of an election, or of a call that took too long: it has not failed inside
            assert ErrorCode.UNKNOWN_SERVER_ERROR is error.code, error
            return victim, name
    raise AssertionError("nothing failed")


@pytest.mark.parametrize("place", ["controller.deciding", "controller.encoding"])
async def test_what_another_may_survive_is_another_s_to_decide(cluster: Cluster, writer: Writer, place: str) -> None:
    victim, name = await failed(cluster, writer, place)
    async with writing(writer, f"after-{place}"):
        await writer.goes_on()

        assert victim != await cluster.active()
        assert cluster.running.is_up(cluster.controller(victim))

    await caught_up(cluster)
    for node_id in (victim, *others(victim)):
        assert name not in await cluster.topics(node_id)
    await check(cluster, writer)
    await cluster.kill(cluster.controller(victim))
    await cluster.heal()


async def test_who_cannot_apply_its_own_record_ends(cluster: Cluster, writer: Writer) -> None:
    victim, name = await failed(cluster, writer, "controller.applying")

    assert FAILED == await cluster.ended(cluster.controller(victim))

    async with writing(writer, "applying"):
        await writer.goes_on()
        await cluster.heal()
    await caught_up(cluster)
    for node_id in (victim, *others(victim)):
        assert name not in await cluster.topics(node_id)
    await check(cluster, writer)
