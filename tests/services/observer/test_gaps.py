"""The part of the log that a checkpoint has replaced is named by each answer about a part of it."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from kraft import Message
from kraft.service.observer_pb2 import HistoryGap, ListChangesRequest, LogPlace, WatchImageRequest
from quorate.metadata.configs import TOPIC
from quorate.records import ConfigRecord, NoOpRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from tests.cli.directories import run
from tests.controller.clusters import uuid
from tests.services.observer.test_changes import serving, serving_at
from tests.sql.test_state_database import Written, place

AFTER, UNTIL, END = 4, 11, 20
GAP = HistoryGap(after_offset=AFTER, until_offset=UNTIL)
NOTE = f"all that changed after offset {AFTER} is one change at offset {UNTIL}: a checkpoint has replaced the log"


def kept_with_gap(url: str, *, is_quiet: bool) -> str:
    """A log of which a checkpoint has replaced a part; in a quiet one nothing has changed there."""
    quiet = range(AFTER + 1, UNTIL + 1) if is_quiet else ()
    log = [
        NoOpRecord() if offset in quiet else ConfigRecord(TOPIC, "orders", "retention.ms", str(offset))
        for offset in range(END)
    ]
    written = Written(url)
    written.follow(log[: AFTER + 1])
    written.write()
    written.load(log[: UNTIL + 1])
    written.follow(log[UNTIL + 1 :])
    written.write()
    written.close()
    return url


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    """By whether nothing has changed in the gap."""
    directory: Path = tmp_path_factory.mktemp("gaps")
    return {quiet: kept_with_gap(f"sqlite:///{directory}/{quiet}.db", is_quiet=quiet) for quiet in (False, True)}


@pytest.mark.parametrize("is_quiet", [False, True])
async def test_a_list_names_each_gap_that_has_a_part_in_it(written: dict[bool, str], *, is_quiet: bool) -> None:
    """By offsets and by times, which are those of the first change that is later."""
    ranges = {(0, 5): False, (0, 6): True, (6, 9): True, (UNTIL, 12): True, (UNTIL + 1, END): False, (0, END): True}
    times = {(6, 9): True, (6, END - 1): True, (UNTIL, END - 1): False}
    found, at_times = {}, {}
    async with serving(written[is_quiet]) as stub:
        for begin, end in ranges:
            asked = {"from": LogPlace(offset=begin), "to": LogPlace(offset=end)}
            found[begin, end] = list((await stub.ListChanges(ListChangesRequest(**asked))).gaps)
        for begin, end in times:
            since, until = (LogPlace(timestamp_ms=place(each).timestamp_ms) for each in (begin, end))
            asked = {"from": since, "to": until}
            at_times[begin, end] = list((await stub.ListChanges(ListChangesRequest(**asked))).gaps)

    assert {each: [GAP] * is_named for each, is_named in ranges.items()} == found
    assert {each: [GAP] * is_named for each, is_named in times.items()} == at_times


@pytest.mark.parametrize("is_quiet", [False, True])
async def test_a_watch_names_the_gap_that_it_passes(written: dict[bool, str], *, is_quiet: bool) -> None:
    async with serving(written[is_quiet]) as stub:
        told = {}
        for begin in (AFTER - 2, AFTER + 2, UNTIL + 1):
            call = stub.WatchImage(WatchImageRequest(from_offset=begin))
            parts = [await call.read(), await call.read()]
            call.cancel()
            told[begin] = [list(part.gaps) for part in parts], parts[-1].next_offset

    assert {AFTER - 2: ([[], [GAP]], END), AFTER + 2: ([[], [GAP]], END), UNTIL + 1: ([[], []], END)} == told


async def test_the_command_names_it_as_text_as_a_document_and_while_it_follows(written: dict[bool, str]) -> None:
    async with serving_at(written[False]) as address:
        of = ("history", "--observer", address)
        within = ("--from", str(AFTER + 2), "--to", str(UNTIL - 1))
        text, document = [await asyncio.to_thread(run, *of, *within, *form) for form in ((), ("--json",))]
        follow = (sys.executable, "-m", "quorate.cli", *of, "--json", "--follow", "--from", str(AFTER + 2))
        process = await asyncio.create_subprocess_exec(*follow, stdout=PIPE)
        assert process.stdout is not None, "PIPE"
        first, second = [json.loads(await process.stdout.readline()) for _ in range(2)]
        process.kill()
        await process.communicate()

    unknown = {"afterOffset": AFTER, "untilOffset": UNTIL, "note": NOTE}
    assert ["0 changes between offset 6 and offset 10", f"note: {NOTE}"] == text.out.splitlines()
    assert [unknown] == document.documents
    assert (unknown, UNTIL) == (first, second["offset"])


@pytest.mark.parametrize("is_gap", [False, True])
async def test_of_what_happened_in_a_gap_nothing_is_inferred(tmp_path: Path, *, is_gap: bool) -> None:
    """The new leader was not in the ISR before, and came into it in the gap; of one change that is unclean."""
    topic = uuid(1)
    log: list[Message] = [
        TopicRecord("orders", topic),
        PartitionRecord(0, topic, (1, 2, 3), (1, 2), (), (), 1),
        PartitionChangeRecord(0, topic, isr=(1, 2, 3)),
        PartitionChangeRecord(0, topic, isr=(2, 3), leader=3),
    ]
    written = Written(f"sqlite:///{tmp_path}/state.db")
    written.follow(log[:2])
    written.write()
    if is_gap:
        written.load(log)
    else:
        written.follow([PartitionChangeRecord(0, topic, isr=(2, 3), leader=3)])
        written.write()
    written.close()
    async with serving(f"sqlite:///{tmp_path}/state.db") as stub:
        page = await stub.ListChanges(ListChangesRequest(subject="partitions", **{"from": LogPlace(offset=2)}))
        call = stub.WatchImage(WatchImageRequest(subject="partitions", from_offset=2))
        _, part = await call.read(), await call.read()
        call.cancel()
    said = "partition orders-0 leader 1 → 3; ISR 1,2 → 2,3" + "; unclean election" * (not is_gap)

    assert [said] == [each.sentence for each in page.changes] == [each.sentence for each in part.changes]
