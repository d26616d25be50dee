"""Which fetches a gateway answers from its own end of the log, and when; all others are the quorum node's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from kraft import Uuid
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.nouns import METADATA_TOPIC_ID, NOBODY
from quorate.runtime.following.log_reader import CommittedBatch, LoadedSnapshot
from quorate.wire.batch import CONTROL, BatchHeader, data_batch
from services.gateway import reader_fetches
from services.gateway.reader_fetches import ReaderFetches

NODE: Final = 1
VOTERS: Final = frozenset({1, 2, 3})
BROKER: Final = 101
EPOCH: Final = 7
START: Final = 10
LISTENER: Final = "CONTROLLER"
LONG_MS: Final = 60_000

Data = FetchResponse.FetchableTopicResponse.PartitionData


class Log:
    """A reader of the node's log, as `LogReader`: what it yields is put into it."""

    cluster_id: str | None = "cluster"
    voters: frozenset[int] | None = VOTERS

    def __init__(self, start: tuple[int, int], on_change: Callable[[], None]) -> None:
        self.leader_id, self.leader_epoch, self.on_change = NODE, EPOCH, on_change
        self.start = start
        self.closed = asyncio.Event()
        self._events: asyncio.Queue[Any] = asyncio.Queue()

    async def events(self) -> AsyncIterator[Any]:
        while True:
            yield await self._events.get()

    async def close(self) -> None:
        self.closed.set()

    def commit(self, offset: int, count: int = 1, *, epoch: int = EPOCH, attributes: int = 0) -> bytes:
        data = b"%d;" % offset
        header = BatchHeader(offset, len(data), epoch, 0, attributes, count - 1, 0, 0, -1, -1, -1, count)
        self._events.put_nowait(CommittedBatch(header=header, data=data, high_watermark=offset + count))
        return data

    def put(self, event: Any) -> None:
        self._events.put_nowait(event)

    def led_by(self, leader_id: int, epoch: int) -> None:
        self.leader_id, self.leader_epoch = leader_id, epoch
        self.on_change()


class Gateway:
    """The fetches of a gateway, whose node has answered one of the broker's at START."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self.takes_reports = True
        self.reports: list[tuple[int, list[tuple[int, int]]]] = []
        """Epoch, and node id and offset of each reader."""
        self.readers = ReaderFetches(self._open, self._report, node_id=NODE)

    async def _report(self, epoch: int, readers: Sequence[tuple[int, bytes, int]]) -> bool:
        self.reports.append((epoch, [(node_id, offset) for node_id, _, offset in readers]))
        return self.takes_reports

    def _open(self, *, start: tuple[int, int], on_change: Callable[[], None]) -> Any:
        self.logs.append(Log(start, on_change))
        return self.logs[-1]

    @property
    def log(self) -> Log:
        return self.logs[-1]

    async def answer(self, request: FetchRequest) -> tuple[bytes, int] | None:
        """The records, and the high watermark."""
        found = await self.readers.answer(request, LISTENER)
        if found is None:
            return None
        partition = found.response.responses[0].partitions[0]
        return partition.records or b"", partition.high_watermark

    def asked(self, request: FetchRequest) -> asyncio.Future[tuple[bytes, int] | None]:
        return asyncio.ensure_future(self.answer(request))


def fetch(
    offset: int,
    *,
    replica: int = BROKER,
    epoch: int = EPOCH,
    last: int = EPOCH,
    wait_ms: int = 0,
    known: int | None = None,
    bytes_max: int = 1 << 20,
    cluster: str | None = "cluster",
) -> FetchRequest:
    partition = FetchRequest.FetchTopic.FetchPartition(
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last
    )
    if known is not None:
        partition = FetchRequest.FetchTopic.FetchPartition(
            current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last, high_watermark=known
        )
    return FetchRequest(
        cluster_id=cluster,
        replica_state=FetchRequest.ReplicaState(replica),
        max_wait_ms=wait_ms,
        max_bytes=bytes_max,
        topics=(FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


def answered(
    *, leader: int = NODE, epoch: int = EPOCH, error: int = 0, high_watermark: int = START, records: bytes = b""
) -> FetchResponse:
    """By the quorum node."""
    partition = Data(
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=3,
        current_leader=Data.LeaderIdAndEpoch(leader, epoch),
        records=records,
    )
    topic = FetchResponse.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return FetchResponse(responses=(topic,), node_endpoints=(FetchResponse.NodeEndpoint(leader, "here", 9093),))


async def turns() -> None:
    """Lets the others do what they can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node need not see a fetch for as long as a test takes, and news waits for nothing."""
    monkeypatch.setattr(reader_fetches, "NODE_EVERY_S", 600.0)
    monkeypatch.setattr(reader_fetches, "HELD_MAX_S", 600.0)
    monkeypatch.setattr(reader_fetches, "REPORT_EVERY_S", 600.0)
    monkeypatch.setattr(reader_fetches, "BEHIND_S", 600.0)
    monkeypatch.setattr(reader_fetches, "BEGIN_AGAIN_S", 0.0)
    monkeypatch.setattr(reader_fetches, "NEWS_WAIT_S", 0.0)


@asynccontextmanager
async def following(**said: Any) -> AsyncIterator[Gateway]:
    gateway = Gateway()
    running = asyncio.ensure_future(gateway.readers.run())
    await turns()
    gateway.readers.passed(fetch(START), LISTENER, answered(**said))
    await turns()
    try:
        yield gateway
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_reader_has_what_is_committed_in_the_form_of_the_nodes_last_answer() -> None:
    async with following() as gateway:
        first, second = gateway.log.commit(START, 2), gateway.log.commit(START + 2)
        await turns()
        served = await gateway.readers.answer(fetch(START), LISTENER)
        one = await gateway.answer(fetch(START, bytes_max=1))
        rest = await gateway.answer(fetch(START + 2))
        ended = await gateway.answer(fetch(START + 3))

    assert (START, EPOCH) == gateway.log.start
    assert served is not None
    both = served.response
    (partition,) = both.responses[0].partitions
    assert (first + second, START + 3, 3) == (partition.records, partition.high_watermark, partition.log_start_offset)
    assert Data.LeaderIdAndEpoch(NODE, EPOCH) == partition.current_leader
    assert answered().node_endpoints == both.node_endpoints
    assert [(first, START + 3), (second, START + 3), (b"", START + 3)] == [one, rest, ended]


async def test_without_news_a_fetch_is_held_until_something_is_committed_or_its_time_is_over() -> None:
    async with following() as gateway:
        held = gateway.asked(fetch(START, wait_ms=LONG_MS))
        await turns()
        was_done = held.done()
        data = gateway.log.commit(START)
        told = await held
        late = await gateway.answer(fetch(START + 1, wait_ms=1))
        unaware = await gateway.answer(fetch(START + 1, wait_ms=LONG_MS, known=START))

    assert not was_done
    assert (data, START + 1) == told
    assert (b"", START + 1) == late
    assert (b"", START + 1) == unaware, "a high watermark that it does not know is news (KIP-1166)"


async def test_a_held_fetch_is_the_nodes_once_another_leads() -> None:
    async with following() as gateway:
        held = gateway.asked(fetch(START, wait_ms=LONG_MS))
        await turns()
        gateway.log.led_by(2, EPOCH + 1)

        assert await held is None
        assert await gateway.answer(fetch(START)) is None


async def test_a_held_fetch_is_the_nodes_while_another_leads_in_the_same_epoch() -> None:
    """As when this node has heard of the epoch, but thought for a moment that it led in it."""
    async with following() as gateway:
        gateway.log.led_by(2, EPOCH)

        assert await gateway.answer(fetch(START)) is None


async def test_who_is_ahead_waits_until_its_records_are_committed_and_are_the_same() -> None:
    async with following() as gateway:
        ahead = gateway.asked(fetch(START + 1, wait_ms=LONG_MS))
        other = gateway.asked(fetch(START + 1, last=EPOCH - 1, wait_ms=LONG_MS))
        await turns()
        gateway.log.commit(START)
        await turns()
        were_done = ahead.done(), other.done()
        data = gateway.log.commit(START + 1)

        assert (False, True) == were_done, "the one has all; the other is to be told at once where its log parts"
        assert (data, START + 2) == await ahead
        assert await other is None


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(fetch(START, epoch=EPOCH - 1), id="an earlier epoch"),
        pytest.param(fetch(START, epoch=EPOCH + 1), id="a later epoch"),
        pytest.param(fetch(START, last=EPOCH - 1), id="another log"),
        pytest.param(fetch(START - 1), id="before the tail"),
        pytest.param(fetch(START + 1), id="between two batches"),
        pytest.param(fetch(START, cluster="another"), id="another cluster"),
        pytest.param(fetch(START, replica=2), id="a voter"),
        pytest.param(fetch(START, replica=BROKER + 1), id="one that the node has not seen"),
        pytest.param(FetchRequest(replica_state=FetchRequest.ReplicaState(BROKER)), id="no partition"),
        pytest.param(
            FetchRequest(
                replica_state=FetchRequest.ReplicaState(BROKER),
                topics=(FetchRequest.FetchTopic(topic_id=Uuid(bytes(15) + b"2")),),
            ),
            id="another topic",
        ),
    ],
)
async def test_what_a_rule_is_for_goes_on_to_the_node(request_: FetchRequest) -> None:
    async with following() as gateway:
        gateway.readers.passed(fetch(START, replica=2), LISTENER, answered())
        gateway.log.commit(START, 2)
        await turns()

        assert await gateway.answer(fetch(START)) is not None
        assert await gateway.answer(request_) is None


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"leader": 2}, id="another leads"),
        pytest.param({"error": 6}, id="an error"),
        pytest.param({"high_watermark": -1}, id="a leader that knows no high watermark yet"),
    ],
)
async def test_no_log_is_followed_by_what_another_or_nobody_leads(said: dict[str, int]) -> None:
    async with following(**said) as gateway:
        assert [] == gateway.logs
        assert await gateway.answer(fetch(START)) is None


def batch(offset: int, count: int, *, epoch: int = EPOCH) -> bytes:
    return data_batch(base_offset=offset, epoch=epoch, timestamp_ms=1, values=[b"x"] * count)


@pytest.mark.parametrize(
    ("asked", "said", "start"),
    [
        pytest.param(fetch(START), {}, (START, EPOCH), id="at the end"),
        pytest.param(
            fetch(START - 5, last=2),
            {"records": batch(START - 5, 3, epoch=4) + batch(START - 2, 9)},
            (START - 2, 4),
            id="behind: after the first batch",
        ),
        pytest.param(
            fetch(START - 4, last=6),
            {"records": batch(START - 5, 3, epoch=4)},
            (START - 2, 4),
            id="within a batch, and with an epoch that is in the log later",
        ),
        pytest.param(fetch(START), {"records": batch(START, 1)}, None, id="a batch that is not committed"),
        pytest.param(fetch(START + 1), {}, None, id="ahead of what is committed"),
        pytest.param(fetch(START), {"records": b"no batch"}, None, id="what is no batch"),
    ],
)
async def test_the_log_is_followed_from_where_all_is_committed_by_the_nodes_word(
    asked: FetchRequest, said: dict[str, Any], start: tuple[int, int] | None
) -> None:
    gateway = Gateway()
    running = asyncio.ensure_future(gateway.readers.run())
    await turns()
    gateway.readers.passed(asked, LISTENER, answered(**said))
    await turns()
    running.cancel()
    await asyncio.wait([running])

    assert [log.start for log in gateway.logs] == ([] if start is None else [start])


async def test_the_node_sees_a_fetch_of_each_reader_before_a_second_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with following() as gateway:
        before = await gateway.answer(fetch(START))
        monkeypatch.setattr(reader_fetches, "NODE_EVERY_S", 0.0)
        due = await gateway.answer(fetch(START))

    assert ((b"", START), None) == (before, due)


@pytest.mark.parametrize("takes_reports", [True, False])
async def test_the_node_is_told_how_far_readers_are_and_sees_the_fetches_of_which_it_is_not_told(
    monkeypatch: pytest.MonkeyPatch, takes_reports: bool
) -> None:
    monkeypatch.setattr(reader_fetches, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(reader_fetches, "NODE_EVERY_S", 0.0)
    async with following() as gateway:
        gateway.takes_reports = takes_reports
        gateway.log.commit(START)
        ahead = gateway.asked(fetch(START + 2, wait_ms=LONG_MS))
        await turns()
        before = list(gateway.reports)
        gateway.log.commit(START + 1)
        gateway.log.commit(START + 2)
        served = await ahead
        await turns()
        last, count = gateway.reports[-1], len(gateway.reports)
        await turns()
        count = len(gateway.reports) - count
        following_one = await gateway.answer(fetch(START + 3))

    assert ([], (b"12;", START + 3)) == (before, served)
    assert (EPOCH, [(BROKER, START + 2)]) == last
    assert (takes_reports, takes_reports) == (count == 0, following_one is not None)


async def test_an_answer_of_an_earlier_epoch_is_in_no_later_one() -> None:
    """It names the leader of that epoch, and the node has not compared the reader's log in this one."""
    async with following() as gateway:
        gateway.log.led_by(NODE, EPOCH + 2)
        fenced = await gateway.answer(fetch(START))
        unseen = await gateway.answer(fetch(START, epoch=EPOCH + 2))
        gateway.readers.passed(fetch(START), LISTENER, answered(epoch=EPOCH + 2))
        seen = await gateway.answer(fetch(START, epoch=EPOCH + 2))

    assert (None, None, (b"", START)) == (fenced, unseen, seen)


async def test_after_a_control_batch_the_voters_are_asked_for_again() -> None:
    async with following() as gateway:
        gateway.log.commit(START, attributes=CONTROL)
        await turns()
        gateway.log.voters = VOTERS | {BROKER}
        joined = await gateway.answer(fetch(START + 1))

    assert [(START, EPOCH), (START + 1, EPOCH)] == [log.start for log in gateway.logs]
    assert gateway.logs[0].closed.is_set()
    assert joined is None


async def test_a_checkpoint_in_the_place_of_the_log_ends_the_tail() -> None:
    async with following() as gateway:
        gateway.log.put(LoadedSnapshot(end_offset=START + 50, epoch=EPOCH, data=b""))
        await turns()
        gone = await gateway.answer(fetch(START))
        gateway.readers.passed(fetch(START + 50), LISTENER, answered(high_watermark=START + 50))
        await turns()

    assert gone is None
    assert [(START, EPOCH), (START + 50, EPOCH)] == [log.start for log in gateway.logs]


async def test_no_reader_is_told_a_lower_high_watermark_than_before() -> None:
    """The node knows of commits before this gateway has them."""
    async with following(high_watermark=START + 2) as gateway:
        held = gateway.asked(fetch(START, wait_ms=LONG_MS))
        gateway.log.commit(START)
        await turns()
        was_done, hurried = held.done(), await gateway.answer(fetch(START))
        gateway.log.commit(START + 1)

        assert (False, None) == (was_done, hurried)
        assert (b"10;11;", START + 2) == await held


async def test_who_is_ahead_for_long_is_answered_by_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that votes by what is not committed yet: its acknowledgement is needed for the commit."""
    monkeypatch.setattr(reader_fetches, "BEHIND_S", 0.0)
    async with following() as gateway:
        assert await gateway.answer(fetch(START + 1, wait_ms=LONG_MS)) is None


async def test_a_log_that_cannot_be_followed_is_followed_from_the_next_reader_on() -> None:
    async with following() as gateway:
        gateway.log.led_by(NOBODY, -1)
        await turns()
        gateway.readers.passed(fetch(START + 4), LISTENER, answered(high_watermark=START + 4))
        await turns()
        gateway.log.commit(START + 4)
        await turns()
        told = await gateway.answer(fetch(START + 4))

    assert [(START, EPOCH), (START + 4, EPOCH)] == [log.start for log in gateway.logs]
    assert gateway.logs[0].closed.is_set()
    assert (b"14;", START + 5) == told


async def test_without_readers_no_log_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_fetches, "FORGOTTEN_S", 0.02)
    async with following() as gateway:
        await gateway.log.closed.wait()

        assert await gateway.answer(fetch(START)) is None
