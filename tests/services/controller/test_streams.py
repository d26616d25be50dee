"""The controller's driver and its streams to the quorum node: what an end of leadership leaves behind."""

from __future__ import annotations

import asyncio

from quorate.controller.engine.decision import Decision
from quorate.controller.engine.engine import Append
from quorate.records import NoOpRecord
from quorate.runtime.clients.client import open_channel
from services.controller.quorum_link import QuorumLink
from tests.services.controllers import controller
from tests.services.links import Told
from tests.services.scripted import WITHIN_S, end_of, quorum_at_work

EPOCH = 1


async def test_an_answer_to_what_was_voided_is_not_heard() -> None:
    """It was given in an epoch that is over for this controller: it says nothing of what is sent now."""
    async with quorum_at_work() as (quorum, address), open_channel(address) as channel:
        told = Told()
        link = QuorumLink(channel, told)
        running = asyncio.ensure_future(link.run())
        quorum.answers.clear()
        link.send(Append(epoch=EPOCH, base_offset=10, values=(b"void",)))
        await quorum.until(1)
        link.drop()
        link.send(Append(epoch=EPOCH + 1, base_offset=20, values=(b"value",)))
        quorum.answers.set()

        assert ("appended", 21) == await told.next()
        running.cancel()
        await asyncio.wait([running])


async def test_what_waits_when_leadership_ends_never_leaves() -> None:
    """A batch of epoch 1 is on its way, one waits behind it; then another leads epoch 2, and this node epoch 3."""
    async with quorum_at_work() as (quorum, address), controller(address) as here:
        quorum.lead(1, epoch=1, next_offset=1)
        await here.until_active()
        await quorum.until(1)
        waits = asyncio.ensure_future(
            here.driver.write("test", lambda _state, _moment: Decision(None, (NoOpRecord(),)))
        )
        await asyncio.sleep(0)  # it has begun
        quorum.lead(2, epoch=2, next_offset=1)
        await here.until_led_by(2)
        quorum.lead(1, epoch=3, next_offset=1)
        await quorum.until(2)
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait([waits])

    assert [1, 3] == [append.epoch for append in quorum.appends]
    assert end_of(quorum.appends[0]) == end_of(quorum.appends[1])  # each has its activation, and nothing else
    assert waits.exception() is not None
