"""The driver's turns: the loop beside the disk, what one turn may read, and a disk that fails."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.core import Raft
from quorate.raft.ready import Send
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from quorate.storage.disk_log import MARK_INTERVAL_BYTES
from quorate.storage.failpoints import set_failpoint
from services.quorum import answers as sent_answers
from services.quorum.controller_events import ControllerEvents
from services.quorum.driver import QuorumDriver
from services.quorum.tracing import AppendTracer
from tests.services.nodes import NODE, HeldDisk, NoPeers, committed, driver_of, held_disk, open_disk, sole_leader
from tests.storage.logs import batch

OBSERVER = 100
EVERYTHING = (1 << 31) - 1
WITHIN_S = 120
"""A bound against hanging."""
HELD_S = 20
"""A bound against a fetch that is held for ever; it asks to be held for a hundredth of that."""


@pytest.fixture
def held(leader: QuorumDriver) -> Iterator[HeldDisk]:
    with held_disk() as disk:
        yield disk


async def test_what_is_appended_during_a_flush_is_in_the_next_one(leader: QuorumDriver, held: HeldDisk) -> None:
    leader.append(1, 1, [[b"a"]])
    await asyncio.to_thread(held.under_way.wait)
    for offset in range(2, 12):
        leader.append(1, offset, [[b"b"]])
        await asyncio.sleep(0)

    assert (12, 1) == (leader.core.log.leo, leader.core.log.flushed)
    held.let_go()
    await committed(leader, 12)
    assert 2 == held.flush_count


async def test_with_a_linger_appends_wait_for_company(leader: QuorumDriver) -> None:
    """Anything else that happens takes them along."""
    patient = QuorumDriver(
        leader.core, leader.disk, SystemClock(), AppendTracer(OFF, node_id=1), append_linger_ms=60_000
    )
    leader.stop()
    patient.start(NoPeers(), fail)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    patient.append(1, 1, [[b"a"]])
    patient.append(1, 2, [[b"b"]])
    for _ in range(10):
        await asyncio.sleep(0)

    assert (3, 1) == (patient.core.log.leo, patient.disk.log.leo)

    patient.lose(OBSERVER)
    await committed(patient, 3)
    assert 3 == patient.disk.log.leo
    patient.stop()


def fail(error: BaseException) -> None:
    raise error


async def test_answers_while_the_disk_is_waited_for(leader: QuorumDriver, held: HeldDisk) -> None:
    leader.append(1, 1, [[b"a"]])
    await asyncio.to_thread(held.under_way.wait)

    answer, data = await leader.ask(lambda reply: fetch(OBSERVER, reply))

    assert (1, b"a" in data) == (answer.high_watermark, True)


async def test_a_failed_flush_ends_the_node_and_nothing_of_it_counts(tmp_path: Path) -> None:
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    error = OSError(errno.EIO, "I/O error")
    async with sole_leader(tmp_path, failed=ended.set_result) as leader:
        with held_disk() as held:
            held.error = error
            leader.append(1, 1, [[b"a"]])
            held.let_go()

            assert error is await ended
        assert (1, 1) == (leader.core.log.flushed, leader.core.log.high_watermark)
        with pytest.raises(OSError, match="is not asked again"):
            leader.disk.begin_flush()


async def test_a_flush_that_fails_during_a_stop_is_told_and_never_repeated(tmp_path: Path) -> None:
    told: list[BaseException] = []
    error = OSError(errno.EIO, "I/O error")
    async with sole_leader(tmp_path, failed=told.append) as leader:
        with held_disk() as held:
            held.error = error
            leader.append(1, 1, [[b"a"]])
            await asyncio.to_thread(held.under_way.wait)
            leader.stop()
            held.let_go()
            await leader.stopped()

        assert [error] == told
        with pytest.raises(OSError, match="is not asked again"):
            leader.disk.log.flush()


async def test_a_durable_mark_that_cannot_be_written_ends_the_node(tmp_path: Path) -> None:
    """The flush itself was done. A node that lives on counts nothing as flushed, and so never fetches again."""
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    error = OSError(errno.EIO, "I/O error")

    def failing() -> None:
        raise error

    async with sole_leader(tmp_path, failed=ended.set_result) as leader:
        set_failpoint("mark.before_write", failing)
        try:
            leader.append(1, 1, [[bytes(MARK_INTERVAL_BYTES)]])

            assert error is await asyncio.wait_for(ended, WITHIN_S)
        finally:
            set_failpoint("mark.before_write", None)
        assert 1 == leader.core.log.flushed


async def test_a_timer_that_fails_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    error = AssertionError("I-20")

    def tick(core: Raft, now_ms: int) -> None:
        raise error

    disk = open_disk(tmp_path, voters=2)  # so that it waits for a leader
    driver = driver_of(disk)
    driver.start(NoPeers(), ended.set_result)  # type: ignore[arg-type]
    monkeypatch.setattr(Raft, "tick", tick)

    assert error is await asyncio.wait_for(ended, WITHIN_S)
    driver.stop()
    await driver.stopped()
    disk.close()


async def test_a_fetch_is_answered_at_its_deadline_though_the_timer_was_set_for_one_that_is_answered_by_then(
    leader: QuorumDriver,
) -> None:
    held = [asyncio.ensure_future(leader.ask(lambda reply: held_fetch(reply, offset=1, wait_ms=100)))]
    for _ in range(10):
        await asyncio.sleep(0)
    leader.append(1, 1, [[b"a"]])
    answer, data = await asyncio.wait_for(held[0], HELD_S)
    assert data
    held.append(asyncio.ensure_future(leader.ask(lambda reply: held_fetch(reply, offset=2, wait_ms=200))))

    answer, data = await asyncio.wait_for(held[1], HELD_S)
    assert (ErrorCode.NONE, b"") == (answer.error, data)


async def test_one_turn_reads_no_more_than_it_may_hold(leader: QuorumDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that gets nothing asks again, and then has its turn."""
    monkeypatch.setattr(sent_answers, "READ_BYTES_MAX", 10_000)
    monkeypatch.setattr(sent_answers, "READS_BYTES_MAX", 25_000)
    leader.append(1, 1, [[b"x" * 900]] * 100)
    await committed(leader, 101)
    behind = set(range(OBSERVER, OBSERVER + 5))

    sizes = []
    while behind:
        asked = [leader.ask(lambda reply, id=id: fetch(id, reply)) for id in sorted(behind)]  # type: ignore[misc]
        answers = dict(zip(sorted(behind), await asyncio.gather(*asked), strict=True))
        sizes.append([len(data) for _, data in answers.values()])
        behind -= {id for id, (_, data) in answers.items() if data}

    one = sizes[0][0]
    assert 9_000 < one <= 10_000
    assert [[one, one, one, 0, 0], [one, one]] == sizes


def fetch(replica_id: int, reply: object, offset: int = 1) -> raft.FetchRequest:
    """Everything from the LeaderChange on, without patience."""
    return raft.FetchRequest(
        epoch=1,
        replica=ReplicaKey(replica_id),
        fetch_offset=offset,
        last_fetched_epoch=1,
        max_bytes=EVERYTHING,
        max_wait_ms=0,
        reply_to=reply,
    )


def held_fetch(reply: object, *, offset: int, wait_ms: int) -> raft.FetchRequest:
    """One that knows all that is committed below its offset, and waits for more."""
    return replace(fetch(OBSERVER, reply, offset), max_wait_ms=wait_ms, high_watermark=offset)


# Offsets of peers within a batch.


class Asked:
    """Peers that keep what they are sent."""

    def __init__(self) -> None:
        self.sent: list[Send] = []

    def send(self, send: Send) -> None:
        self.sent.append(send)

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


async def fetched(driver: QuorumDriver, peers: Asked, **answer: Any) -> None:
    """Node 2 leads epoch 2, and answers this node's fetch so."""
    driver.hear(raft.BeginQuorumEpochRequest(epoch=2, leader_id=2, voter=NODE, reply_to=lambda *_: None))
    for _ in range(10):
        await asyncio.sleep(0)
    (asked,) = peers.sent
    assert isinstance(asked.request, raft.FetchRequest)
    driver.hear(raft.FetchResponse(epoch=2, leader_id=2, reply_to=asked.request.reply_to, **answer))
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("answer", "leo", "high_watermark"),
    [
        ({"high_watermark": 3}, 5, 0),
        ({"high_watermark": 5}, 5, 5),
        ({"high_watermark": 9}, 5, 5),
        ({"high_watermark": 0, "diverging": OffsetAndEpoch(epoch=1, offset=3)}, 5, 0),
        ({"high_watermark": 0, "diverging": OffsetAndEpoch(epoch=1, offset=2)}, 2, 0),
        ({"high_watermark": 3, "diverging": OffsetAndEpoch(epoch=1, offset=2)}, 2, 0),
    ],
)
async def test_a_follower_takes_no_offset_within_a_batch(
    tmp_path: Path, answer: dict[str, Any], leo: int, high_watermark: int
) -> None:
    """Batches of offsets 0 to 1 and 2 to 4. An offset beyond the log is cut to its end."""
    ended: list[BaseException] = []
    peers, disk = Asked(), open_disk(tmp_path, voters=3)
    disk.append(batch(0, count=2))
    disk.append(batch(2, count=3))
    disk.log.flush()
    driver = driver_of(disk)
    driver.start(peers, ended.append)  # type: ignore[arg-type]
    await fetched(driver, peers, **answer)

    assert [] == ended
    assert (leo, high_watermark) == (driver.core.log.leo, driver.core.log.high_watermark)
    driver.stop()
    await driver.stopped()
    disk.close()


@pytest.mark.parametrize(("replica_id", "is_taken"), [(OBSERVER, False), (-1, True)])
async def test_a_leader_takes_no_fetch_offset_within_a_batch(
    leader: QuorumDriver, replica_id: int, is_taken: bool
) -> None:
    """That of a voter moves the high watermark; a reader without an id may begin anywhere."""
    leader.append(1, 1, [[b"a", b"b"]])
    await committed(leader, 3)

    if is_taken:
        answer, data = await leader.ask(lambda reply: fetch(replica_id, reply, offset=2))
        assert (ErrorCode.NONE, True) == (answer.error, b"b" in data)
    else:
        with pytest.raises(ApiError, match="fetch_offset 2 is within a batch") as refused:
            await leader.ask(lambda reply: fetch(replica_id, reply, offset=2))
        assert ErrorCode.INVALID_REQUEST is refused.value.code


async def test_a_controller_waits_for_the_rest_of_a_batch(leader: QuorumDriver) -> None:
    leader.append(1, 1, [[b"a", b"b"]])
    await committed(leader, 3)
    leader.high_watermark = 2  # as an earlier version took it from a peer
    event = asyncio.ensure_future(anext(aiter(ControllerEvents(leader, 1).events())))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not event.done()

    leader.high_watermark = 3
    leader.changed.set()

    assert b"b" in (await event).batches.records
