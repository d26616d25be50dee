"""The controller's end of RaftClient against a real server that commits on command."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.engine.engine import Append
from quorate.errors import ErrorCode
from services.controller.quorum_link import EventsBehind, QuorumLink, Shared
from tests.services.links import PATIENT_S, Quorum, Told, batch, linked


async def test_what_is_decided_until_a_message_is_committed_leaves_in_one() -> None:
    async with linked() as (link, quorum, told):
        link.send(batch(10))
        assert ("appended", 11) == await told.next()
        for offset in (11, 14, 15):
            link.send(batch(offset, 3 if offset == 11 else 1))
            quorum.commit(10)  # a round of messages in which it might leave
            assert ("committed", 10) == await told.next()

        assert [(10, 1)] == quorum.messages
        quorum.commit(11)
        await quorum.until(2)
        assert [(10, 1), (11, 3, 1, 1)] == quorum.messages


async def test_large_writes_do_not_share_a_message_that_the_quorum_node_would_refuse() -> None:
    """Without their frames two of them are just as large as what it receives."""
    large = (b"x" * 8_388,) * 1_000
    async with linked() as (link, quorum, told):
        link.send(batch(10))
        assert ("appended", 11) == await told.next()
        link.send(Append(epoch=1, base_offset=11, values=large))
        link.send(Append(epoch=1, base_offset=1_011, values=large))
        quorum.commit(11)
        await quorum.until(2)
        quorum.commit(1_011)
        await quorum.until(3)

        assert [(10, 1), (11, 1_000), (1_011, 1_000)] == quorum.messages


async def test_a_refusal_makes_room_for_what_is_decided_again() -> None:
    async with linked() as (link, quorum, told):
        quorum.refuses_next = ErrorCode.OFFSET_OUT_OF_RANGE
        link.send(batch(10))
        link.send(batch(11))
        assert ("OFFSET_OUT_OF_RANGE", 12) == await told.next()

        link.send(batch(12))
        await quorum.until(2)
        assert [(10, 1, 1), (12, 1)] == quorum.messages


async def test_what_was_dropped_never_leaves() -> None:
    async with linked() as (link, quorum, told):
        link.send(batch(10))
        assert ("appended", 11) == await told.next()
        link.send(batch(11))
        link.drop()
        link.send(batch(20))

        await quorum.until(2)
        assert [(10, 1), (20, 1)] == quorum.messages


async def test_an_append_waits_for_one_that_is_announced_and_both_share_a_message() -> None:
    async with linked() as (link, quorum, told):
        with link.coming():
            link.send(batch(10))
            for committed in range(3):  # rounds of messages in which it might leave
                quorum.commit(committed)
                assert ("committed", committed) == await told.next()
            assert [] == quorum.messages
        link.send(batch(11))

        await quorum.until(1)
        assert [(10, 1, 1)] == quorum.messages


async def test_an_announced_append_that_does_not_come_holds_the_others_up_for_a_moment_only() -> None:
    async with linked(group_wait_s=0.005) as (link, _, told):
        with link.coming():
            link.send(batch(10))
            assert ("appended", 11) == await told.next()


@asynccontextmanager
async def others_come(link: QuorumLink, *, are_refused: bool = False) -> AsyncIterator[asyncio.Future[None]]:
    """One is announced until the block ends, and in each turn of the loop another one comes, or is refused."""

    async def come() -> None:
        for at in count(11):
            with link.coming():
                await asyncio.sleep(0)
            if not are_refused:
                link.send(batch(at))

    coming = asyncio.ensure_future(come())
    with link.coming():
        yield coming
    coming.cancel()


async def test_an_append_waits_on_while_others_come() -> None:
    wait_s = 0.005
    async with linked(group_wait_s=wait_s) as (link, quorum, told), others_come(link):
        link.send(batch(10))
        ends = asyncio.get_running_loop().time() + 2 * wait_s
        committed = 0
        while asyncio.get_running_loop().time() < ends or committed < 3:  # rounds of messages in which it might leave
            quorum.commit(committed)
            assert ("committed", committed) == await told.next()
            committed += 1

        assert [] == quorum.messages


async def test_an_append_leaves_after_a_while_though_others_come() -> None:
    async with linked(group_wait_s=0.005, group_wait_max_s=0.01) as (link, _, told), others_come(link) as coming:
        link.send(batch(10))
        assert "appended" == (await told.next())[0]
        assert not coming.done()  # the queue would be full


class Watch:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def two_share(link: QuorumLink, quorum: Quorum, told: Told, watch: Watch, took_s: float = PATIENT_S) -> None:
    """Two appends share a message, and two others the next one; the first is committed at once, the second so late."""
    for base_offset, after_s in ((10, 0.0), (12, took_s)):
        link.send(batch(base_offset))
        link.send(batch(base_offset + 1))
        assert ("appended", base_offset + 2) == await told.next()
        watch.now_s += after_s
        quorum.commit(base_offset + 2)
        assert ("committed", base_offset + 2) == await told.next()


async def test_an_append_waits_for_as_many_as_shared_each_of_the_last_two_messages() -> None:
    watch = Watch()
    async with asyncio.timeout(PATIENT_S / 2), linked(now_s=watch) as (link, quorum, told):
        await two_share(link, quorum, told, watch)
        link.send(batch(14))
        for committed in range(3):  # rounds of messages in which it might leave
            quorum.commit(committed)
            assert ("committed", committed) == await told.next()
        assert [(10, 1, 1), (12, 1, 1)] == quorum.messages
        link.send(batch(15))

        await quorum.until(3)
        assert (14, 1, 1) == quorum.messages[-1]


async def test_those_that_do_not_come_again_hold_an_append_up_for_a_moment_only() -> None:
    watch = Watch()
    async with linked(group_wait_s=0.005, now_s=watch) as (link, quorum, told):
        await two_share(link, quorum, told, watch)
        link.send(batch(14))

        assert ("appended", 15) == await told.next()


async def test_nobody_is_waited_for_longer_than_the_last_commit_took() -> None:
    watch = Watch()
    async with asyncio.timeout(PATIENT_S / 2), linked(now_s=watch) as (link, quorum, told):
        await two_share(link, quorum, told, watch, took_s=0.005)
        link.send(batch(14))

        assert ("appended", 15) == await told.next()


async def test_those_that_are_expected_are_waited_for_while_they_come_and_as_long_as_the_last_commit_took() -> None:
    watch = Watch()
    async with linked(group_wait_s=0.005, now_s=watch) as (link, quorum, told):
        await two_share(link, quorum, told, watch)
        for offset in (14, 15, 16):
            link.send(batch(offset))
        assert ("appended", 17) == await told.next()
        watch.now_s += 1
        quorum.commit(17)
        assert ("committed", 17) == await told.next()

        async def come() -> None:  # without an end, one in each turn of the loop
            for offset in count(17):
                link.send(batch(offset))
                await asyncio.sleep(0)

        coming = asyncio.ensure_future(come())
        for committed in range(3):
            quorum.commit(committed)
            assert ("committed", committed) == await told.next()
        assert 3 == len(quorum.messages)
        watch.now_s += 1

        assert "appended" == (await told.next())[0]
        assert not coming.done()  # the queue would be full
        coming.cancel()


async def test_nobody_is_expected_after_what_was_dropped() -> None:
    watch = Watch()
    async with asyncio.timeout(PATIENT_S / 2), linked(now_s=watch) as (link, quorum, told):
        await two_share(link, quorum, told, watch)
        link.drop()
        link.send(batch(20))

        assert ("appended", 21) == await told.next()


SHARED = [((), 1, False), ((1,), 1, False), ((2,), 2, True), ((2, 2), 1, True), ((2, 2), 2, False), ((2, 2), 3, False)]
SHARED += [((3, 2), 2, True), ((2, 3), 2, True), ((2, 3), 5, True), ((3, 1), 1, False), ((64, 64), 63, True)]
"""How many shared each message, how many wait now, and whether others are expected."""


@pytest.mark.parametrize(("counts", "waiting", "expected"), SHARED)
def test_others_are_expected_until_as_many_are_here_as_shared_each_of_the_last_two_messages(
    counts: tuple[int, ...], waiting: int, expected: bool
) -> None:
    last = Shared()
    for each in counts:
        last = last.after_commit(each, 0.01)

    assert expected == last.others_come(waiting)


async def test_those_that_are_refused_hold_no_append_up() -> None:
    async with linked(group_wait_s=0.005) as (link, _, told), others_come(link, are_refused=True):
        link.send(batch(10))
        assert ("appended", 11) == await told.next()


async def test_what_is_dropped_while_it_waits_for_another_never_leaves() -> None:
    async with linked() as (link, quorum, told):
        with link.coming():
            link.send(batch(10))
            quorum.commit(1)  # the link has begun to wait
            assert ("committed", 1) == await told.next()
            link.drop()
        quorum.commit(2)
        assert ("committed", 2) == await told.next()
        link.send(batch(20))

        await quorum.until(1)
        assert [(20, 1)] == quorum.messages


async def test_whoever_waits_for_the_commit_under_way_goes_on_when_it_is_over() -> None:
    async with asyncio.timeout(PATIENT_S / 2), linked() as (link, quorum, told):
        await link.until_committed()  # nothing is under way
        link.send(batch(10))
        assert ("appended", 11) == await told.next()
        waiting = asyncio.ensure_future(link.until_committed())
        for committed in (9, 10):
            quorum.commit(committed)
            assert ("committed", committed) == await told.next()
        assert not waiting.done()

        quorum.commit(11)
        await waiting


async def test_a_commit_that_does_not_come_holds_whoever_waits_for_it_for_a_moment_only() -> None:
    async with asyncio.timeout(PATIENT_S / 2), linked(group_wait_s=0.005) as (link, _, told):
        link.send(batch(10))
        assert ("appended", 11) == await told.next()

        await link.until_committed()


class Lagging(Told):
    """Cannot follow its events."""

    async def hear(self, event: ListenResponse) -> None:
        await super().hear(event)
        raise EventsBehind("offset 0 is wanted")


async def test_a_stream_of_events_that_is_given_up_ends_at_once() -> None:
    """A test that waits for the garbage collector may hear by the old stream that it is active, and by another."""
    gc.disable()
    try:
        async with linked(Lagging()) as (_, quorum, told):
            quorum.commit(1)
            assert ("committed", 1) == await told.next()
            assert ("cut off", 0) == await told.next()
            async with asyncio.timeout(120), quorum.changed:
                await quorum.changed.wait_for(lambda: quorum.ended)
    finally:
        gc.enable()


class Stopped(Told):
    """Its process is stopped in the moment in which the stream fails."""

    async def hear(self, event: ListenResponse) -> None:
        self.link.cancel()
        raise EOFError("the stream has ended")


async def test_a_stop_ends_the_link_also_in_the_moment_in_which_its_stream_fails() -> None:
    async with linked(Stopped()) as (_, quorum, told):
        quorum.commit(1)
        async with asyncio.timeout(PATIENT_S):
            await asyncio.wait([told.link])

        assert told.link.cancelled()
