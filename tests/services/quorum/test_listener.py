"""The events for the controller beside a node: nothing that the node has not carried out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from quorate.nouns import NOBODY, Offset
from quorate.raft import messages as raft
from services.quorum.batches import data_batches
from services.quorum.controller_events import ControllerEvents
from services.quorum.driver import QuorumDriver
from tests.services.nodes import RECORD, driver_of, open_disk

LEADER = 2


class Wire:
    """Keeps what the node sends."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.came = asyncio.Event()

    def send(self, send: Any) -> None:
        self.sent.append(send.request)
        self.came.set()

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing was sent anywhere."""


async def test_hears_of_records_only_once_they_are_in_the_log(tmp_path: Path) -> None:
    """A fetch may bring records and the news that they are committed: the core knows both before the file does."""
    driver, wire = await follower(tmp_path)
    events = ControllerEvents(driver, 0).events()
    assert (LEADER, 1) == leader_of(await anext(events))

    driver.hear(fetched(wire.sent[-1]))
    assert (1, 0) == (driver.core.log.high_watermark, driver.disk.log.leo)
    event = await anext(events)
    assert driver.disk.read(0, 1) == event.batches.records
    assert 1 == (await anext(events)).committed.high_watermark  # and that this is all
    await ended(driver)


async def test_is_told_that_it_has_all_only_where_the_leader_says_no_more_is_committed(tmp_path: Path) -> None:
    """While this node fetches, what it knows to be committed is the beginning of it."""
    driver, wire = await follower(tmp_path)
    events = ControllerEvents(driver, 0).events()
    told = [(await anext(events)).WhichOneof("event")]
    wire.came.clear()
    driver.hear(fetched(wire.sent[-1], high_watermark=2))
    told.append((await anext(events)).WhichOneof("event"))
    following = asyncio.ensure_future(anext(events))
    await wire.came.wait()
    driver.hear(fetched(wire.sent[-1], at=1, high_watermark=2))
    told += [event.WhichOneof("event") for event in (await following, await anext(events))]

    assert ["leadership", "batches", "batches", "committed"] == told
    await ended(driver)


async def test_is_told_who_leads_and_that_it_has_all_while_more_is_committed_all_the_time(tmp_path: Path) -> None:
    """Whenever the stream has room again there are other batches: those beside them must not wait for a rest."""
    driver, wire = await follower(tmp_path)
    events, told = ControllerEvents(driver, 0).events(), list[str | None]()
    for at in range(4):
        wire.came.clear()
        driver.hear(fetched(wire.sent[-1], at=at, high_watermark=at + 1))
        await wire.came.wait()
        told.append((await anext(events)).WhichOneof("event"))

    assert ["batches", "leadership", "batches", "committed"] == told
    await ended(driver)


async def test_a_claim_of_an_epoch_that_was_lost_in_the_meantime_is_taken_back_at_once(leader: QuorumDriver) -> None:
    """The core has stepped down, and the driver has not had its turn since: the controller may hear of it later."""
    events = ControllerEvents(leader, 1).events()
    leader.resign(1)

    assert (1, 1) == leader_of(await anext(events))
    assert NOBODY == leader_of(await anext(events))[0]


async def follower(directory: Path) -> tuple[QuorumDriver, Wire]:
    """It has heard who leads."""
    driver, wire = driver_of(open_disk(directory, voters=2)), Wire()
    driver.start(wire, fail)  # type: ignore[arg-type]  # of PeerWire it has what a follower calls
    await driver.ask(lambda reply: raft.BeginQuorumEpochRequest(epoch=1, leader_id=LEADER, reply_to=reply))
    return driver, wire


async def ended(driver: QuorumDriver) -> None:
    driver.stop()
    await driver.stopped()
    driver.disk.close()


def fetched(request: raft.FetchRequest, *, at: Offset = 0, high_watermark: Offset = 1) -> raft.FetchResponse:
    """The leader's answer: one record, which is committed."""
    return raft.FetchResponse(
        epoch=1,
        leader_id=LEADER,
        high_watermark=high_watermark,
        log_start_offset=0,
        batches=data_batches([[RECORD]], base_offset=at, epoch=1, timestamp_ms=0),
        reply_to=request.reply_to,
    )


def leader_of(event: Any) -> tuple[int, int]:
    return event.leadership.leader_id, event.leadership.epoch


def fail(error: BaseException) -> None:
    raise error
