"""An observer's past: what it lists, compares and watches is what the log says, and it is bounded."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from deploy.local.ports import free_ports
from kraft.service.observer_pb2 import (
    DiffImagesRequest,
    ExamineRequest,
    GetImageRequest,
    GetImageResponse,
    ListChangesRequest,
    LoggedChange,
    LogPlace,
    WatchImageRequest,
    WatchImageResponse,
)
from kraft.service.observer_pb2_grpc import ObserverStub, add_ObserverServicer_to_server
from quorate.cli.features_plan import NO_QUORUM, NO_VOTERS
from quorate.doctor import Facts, examine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.metadata.configs import TOPIC
from quorate.records import ConfigRecord, FeatureLevelRecord, RemoveAccessControlEntryRecord, with_trace
from quorate.runtime.access.entry_guard import EntryGuard
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.statuses import error_from_call
from quorate.runtime.telemetry.tracing import OFF
from services.observer import changes
from services.observer.change_messages import PART_BYTES
from services.observer.servicer import WATCH_IMAGE, ObserverService
from services.observer.spans import SpanStore
from tests.cli.directories import TRACEPARENT, Ran, run
from tests.cli.test_no_secret import FORMS, with_secrets
from tests.controller.clusters import uuid
from tests.metadata.histories import write
from tests.runtime.test_entry_guard import Door, entry
from tests.runtime.test_log_reader import node
from tests.services.observer.test_images import rebuilt
from tests.services.observer.test_state_keeper import append, batches_of, reached, reading
from tests.services.observer.test_stop import observing
from tests.services.scripted import WITHIN_S, listening
from tests.sql.test_state_database import Written
from tests.sql.test_state_past import whole

LARGE = 200_000
"""Characters of a value, of which a few fill a part."""
LARGE_COUNT = 40


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Written]]:
    """A database of a log, by its URL, and what may write on."""
    url = f"sqlite:///{tmp_path_factory.mktemp('state') / 'state.db'}"
    made = Written(url)
    made.follow(whole(write(Random(1), 60)))
    made.follow([ConfigRecord(TOPIC, f"t{number}", "retention.ms", "1" * LARGE) for number in range(LARGE_COUNT)])
    made.follow([])
    made.write()
    yield url, made
    made.close()


@asynccontextmanager
async def serving(
    url: str | None, *, taken_within_s: float = WITHIN_S, guard: EntryGuard | None = None
) -> AsyncIterator[ObserverStub]:
    async with serving_at(url, taken_within_s=taken_within_s, guard=guard) as address, open_channel(address) as channel:
        yield ObserverStub(channel)


@asynccontextmanager
async def serving_at(
    url: str | None, *, taken_within_s: float = WITHIN_S, guard: EntryGuard | None = None
) -> AsyncIterator[str]:
    limits, store = ServerLimits(taken_within_s={WATCH_IMAGE: taken_within_s}), SpanStore()
    server = Server(limits=limits, guard=guard)
    replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    service = ObserverService(replica, store, guard, state_url=url)
    server.add("kraft.service.Observer", add_ObserverServicer_to_server, service)
    async with asyncio.timeout(WITHIN_S), listening(server) as address:
        yield address
    await service.close()
    await store.close()


def end_of(written: Written) -> int:
    assert written.at is not None
    return written.at.next_offset


async def listed(stub: ObserverStub, limit: int, **of: Any) -> list[LoggedChange]:
    """All changes, page by page."""
    found, request = list[LoggedChange](), ListChangesRequest(limit=limit, **of)
    while True:
        page = await stub.ListChanges(request)
        assert len(page.changes) <= limit
        assert len(page.changes) < 2 or page.ByteSize() < 2 * PART_BYTES
        found += page.changes
        if not page.next_page_token:
            return found
        request = ListChangesRequest(limit=limit, subject=request.subject, page_token=page.next_page_token)


async def watched(call: Any, until: int) -> list[WatchImageResponse]:
    """The parts up to an offset."""
    found = list[WatchImageResponse]()
    while not found or found[-1].next_offset < until:
        found.append(await call.read())
    return found


def changes_in(parts: list[WatchImageResponse]) -> list[LoggedChange]:
    return [each for part in parts for each in part.changes]


async def failure(call: Any) -> ApiError:
    """How a call fails."""
    try:
        if isinstance(call, grpc.aio.UnaryStreamCall):
            while await call.read() is not grpc.aio.EOF:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as status:
        error = error_from_call(status)
        assert error is not None, status
        return error
    raise AssertionError("it did not fail")


async def test_by_an_observers_process_the_commands_print_what_they_print_of_the_log(tmp_path: Path) -> None:
    """History and differences of a real quorum node's log, its secrets and traces in it."""
    url = f"sqlite:///{tmp_path}/state.db"
    traced = with_trace(FeatureLevelRecord("group.version", 1), TRACEPARENT)
    batches = [*batches_of(60, seed=1), [record for record, _ in with_secrets(1)], [traced]]
    batches.append([record for record, _ in with_secrets(2)])
    (port,) = free_ports(1)
    address, engine = f"127.0.0.1:{port}", reading(url)
    async with AsyncExitStack() as until:
        driver, log = await until.enter_async_context(node(tmp_path))
        await until.enter_async_context(observing(log, port, address, **{"observer.state.database.url": url}))
        end = await append(driver, batches)
        await reached(engine, end)
        ran = {}
        for source in (("--observer", address), ("--offline", str(tmp_path))):
            ran[source[0]] = [await by_command(*each, *source) for each in commands(end)]
        pasts = [("--as-of", str(at)) for at in (end // 3, end)]
        asked = [
            [await by_command(*each, *at, *source) for at in ((), ("--as-of", str(end * 3 // 4))) for each in QUESTIONS]
            for source in (("--observer", address), ("--offline", str(tmp_path)))
        ]
        doctors = [
            [await by_command("doctor", "--json", *at, *source) for at in ((), *pasts)]
            for source in (("--observer", address), ("--offline", str(tmp_path)))
        ]
        followed = await by_command("history", "--follow", "--to", "3", "--observer", address)
        beyond = await by_command("history", "--from", str(end + 1), "--observer", address)
        of_nothing = await by_command("doctor", "--as-of", str(end + 1), "--observer", address)

    assert ran["--offline"] == ran["--observer"]
    assert {(0, "")} == {(each.code, each.err) for each in ran["--observer"]}
    assert [without_voters(each) for each in asked[0]] == [without_voters(each) for each in asked[1]]
    assert {(0, ""), (1, "")} >= {(each.code, each.err) for each in asked[0]}
    assert '"becomes"' in asked[0][0].out != asked[0][len(QUESTIONS)].out
    for of_image, of_files in zip(*doctors, strict=True):
        assert of_image.document["asOfOffset"] == of_files.document["asOfOffset"]
        of_state = [each for each in of_files.document["findings"] if not needs_quorum(each)]
        assert of_image.document["findings"] == of_state != []
    text = "".join(each.out for each in ran["--observer"])
    assert TRACEPARENT.split(b"-")[1].decode() in text
    assert "another secret, which is not shown" in text
    assert [] == [form for form in FORMS if form in text]
    assert (2, "quorate: --to is not for --follow, which goes on until it is ended\n") == (followed.code, followed.err)
    assert (1, f"from {end + 1}: the database has the log from 0 up to {end}" in beyond.err) == (beyond.code, True)
    assert (1, f"at {end + 1}: the database has the log from 0 up to {end}" in of_nothing.err) == (
        of_nothing.code,
        True,
    )


AT_AN_OFFSET = (
    ("topics", "--json"),
    ("partitions", "--only", "under-replicated", "--json"),
    ("brokers",),
    ("configs", "--json"),
    (
        "sql",
        "\n with recursive isr AS (SELECT p.topic, j.value FROM partitions p, json_each(p.isr) j) "
        "SELECT * FROM isr ORDER BY 1, 2",
    ),
)
"""Questions about the past."""
AT_A_TIME = ("--as-of", "1970-01-01T00:00:01.030Z")
QUESTIONS = (
    ("what-if", "--rack", "rack-a", "--json"),
    ("restart-safe", "--json"),
    ("restart-safe",),
    ("reassign", "plan", "--drain", "2"),
    ("features", "plan", "--release", "4.0"),
)
"""About a state, each with an answer."""


def without_voters(ran: Ran) -> Ran:
    """Without the note on what is known of voters: an image has none, and this log has none."""
    notes = tuple(f"note: {each}" for each in (NO_QUORUM, NO_VOTERS))
    return ran._replace(out="".join(each for each in ran.out.splitlines(keepends=True) if not each.startswith(notes)))


def needs_quorum(finding: dict[str, str]) -> bool:
    """Whether it takes what an image does not have: voters, kraft.version, and what time it is."""
    subject, code = finding["subject"], finding["code"]
    is_of_node = code == "CONFIG_OF_NOTHING" and subject.startswith("broker ")
    return "kraft.version" in subject + finding["sentence"] or code == "TOKEN_EXPIRED" or is_of_node


def commands(end: int) -> list[tuple[str, ...]]:
    return [
        ("history",),
        ("history", "--json"),
        ("history", "topic/orders", "--from", str(end // 3), "--to", str(end // 2)),
        ("history", "user/alice", "--json"),
        ("image", "diff", f"{end // 3}..", "--json"),
        ("image", "diff", f"{end - 3}..{end}"),
        *((*each, "--as-of", str(at)) for at in (end // 3, end // 2, end) for each in AT_AN_OFFSET),
    ]


async def by_command(*arguments: str) -> Ran:
    return await asyncio.to_thread(run, *arguments)


async def test_pages_of_any_size_have_all_changes_and_a_difference_comes_in_parts(written: tuple[str, Written]) -> None:
    url, made = written
    end = end_of(made)
    async with serving(url) as stub:
        small, large = await listed(stub, 7), await listed(stub, 1_000)
        one = await listed(stub, 1, subject="topic/t3")
        parts = [part async for part in stub.DiffImages(DiffImagesRequest(subject="configs"))]

    assert small == large
    assert sorted(each.offset for each in large) == [each.offset for each in large]
    assert [end - LARGE_COUNT + 3] == [each.offset for each in one]
    assert {(0, end)} == {(part.from_offset, part.to_offset) for part in parts}
    assert len(parts) > LARGE_COUNT * LARGE // (2 * PART_BYTES)
    assert LARGE_COUNT <= sum(len(part.rows) for part in parts)


async def test_a_state_of_the_past_is_examined_as_the_doctor_does(written: tuple[str, Written]) -> None:
    async with serving(written[0]) as stub:
        found = [await stub.Examine(ExamineRequest(at=LogPlace(offset=each), limit=1_000)) for each in (30, 30, 10)]
        parts = [part async for part in stub.GetImage(GetImageRequest(at=LogPlace(offset=30)))]
        after = [part async for part in stub.GetImage(GetImageRequest(at=LogPlace(offset=30)))]
    expected = examine(Facts(state=rebuilt(parts), voters=None, kraft_version=None, now_ms=None))

    assert parts == after
    assert [30, 30, 10] == [each.next_offset for each in found]
    assert [each.sentence for each in expected] == [each.sentence for each in found[0].findings] != []
    assert found[0] == found[1] != found[2]


async def test_a_state_of_the_past_is_held_for_a_bounded_time(
    written: tuple[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its transaction is open meanwhile. The present one takes none."""
    monkeypatch.setattr(changes, "IMAGE_S", 0.0)
    async with serving(written[0]) as stub:
        let_go = await failure(stub.GetImage(GetImageRequest(at=LogPlace(offset=30))))
        present = [part.next_offset async for part in stub.GetImage(GetImageRequest())]

    assert (ErrorCode.REQUEST_TIMED_OUT, True) == (let_go.code, "was not taken within 0 s" in let_go.message)
    assert [0] == present


async def test_an_observer_that_tells_the_present_alone_is_not_taken_for_the_past(
    written: tuple[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an earlier release does, which does not know that a state was asked for."""
    told = ObserverService.GetImage

    async def present(self: ObserverService, _: GetImageRequest, context: Any) -> AsyncIterator[GetImageResponse]:
        async for part in told(self, GetImageRequest(), context):
            yield part

    monkeypatch.setattr(ObserverService, "GetImage", present)
    async with serving_at(written[0]) as address:
        ran = [
            await by_command("doctor", *as_of, "--observer", address) for as_of in ((), ("--as-of", "30"), AT_A_TIME)
        ]

    assert [0, 1, 1] == [each.code for each in ran]
    assert ["--as-of 30: it answers with the state at 0" in each.err for each in ran] == [False, True, False]
    assert f"--as-of {AT_A_TIME[1]}: it answers with the state at 0" in ran[2].err


async def test_a_watch_tells_what_was_and_what_comes_and_goes_on_from_an_offset(written: tuple[str, Written]) -> None:
    url, made = written
    async with serving(url) as stub:
        begun = end_of(made)
        call, of_one, what_comes = (
            stub.WatchImage(WatchImageRequest(**each))
            for each in ({"from_offset": 0}, {"from_offset": 0, "subject": "topic/t3"}, {})
        )
        was = await watched(call, begun)
        (nothing,) = await watched(what_comes, begun)
        made.follow([ConfigRecord(TOPIC, "t3", "retention.ms", None)])
        made.write()
        more, its, comes = [await watched(each, begun + 1) for each in (call, of_one, what_comes)]
        again = await watched(stub.WatchImage(WatchImageRequest(from_offset=begun)), begun + 1)
        everything = await listed(stub, 1_000)

    assert everything == changes_in([*was, *more])
    assert ([], begun) == (list(nothing.changes), nothing.next_offset)
    assert everything[-1:] == changes_in(comes) == changes_in(again)
    assert 2 == len(changes_in(its))


async def test_the_command_follows_and_says_where_to_go_on(written: tuple[str, Written]) -> None:
    url, made = written
    async with serving_at(url) as address:
        of = ("history", "configs", "--json", "--observer", address)
        command = (sys.executable, "-m", "quorate.cli", *of, "--follow", "--from", "0")
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, limit=4 * LARGE)
        assert process.stdout is not None, "PIPE"
        was = [json.loads(line) for line in (await by_command(*of)).out.splitlines()]
        told = [json.loads(await process.stdout.readline()) for _ in was]
        made.follow([ConfigRecord(TOPIC, "t5", "retention.ms", None)])
        made.write()
        comes = json.loads(await process.stdout.readline())
    _, said = await process.communicate()

    assert was == told
    assert (end_of(made) - 1, "deleted", "t5") == (comes["offset"], comes["change"], comes["key"]["resource_name"])
    assert (1, True) == (process.returncode, f"; --from {end_of(made)} goes on".encode() in said), said


async def test_a_watch_that_is_not_read_costs_one_part_and_is_let_go_with_the_reason(
    written: tuple[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "WATCHES_MAX", 1)
    async with serving(written[0], taken_within_s=0.2) as stub:
        slow = stub.WatchImage(WatchImageRequest(from_offset=0))
        await slow.read()
        refused, other = set[ErrorCode](), None
        while other is None:  # until the slow one has made room
            call = stub.WatchImage(WatchImageRequest(from_offset=0, subject="topic/t3"))
            try:
                other = await call.read()
            except grpc.aio.AioRpcError as status:
                error = error_from_call(status)
                assert error is not None
                refused.add(error.code)
        let_go = await failure(slow)

    assert {ErrorCode.THROTTLING_QUOTA_EXCEEDED} == refused
    assert (ErrorCode.REQUEST_TIMED_OUT, True) == (let_go.code, "was not taken within 0.2 s" in let_go.message)


async def test_a_watch_ends_for_who_has_lost_the_right(written: tuple[str, Written]) -> None:
    url, made = written
    door = Door(entry(1, "broker", AclOperation.CLUSTER_ACTION))
    async with serving(url, guard=door.of_broker) as stub:
        call = stub.WatchImage(WatchImageRequest())
        begun = await call.read()
        door.replica.state.apply(RemoveAccessControlEntryRecord(uuid(1)), 1)
        made.follow([ConfigRecord(TOPIC, "t4", "retention.ms", None)])
        made.write()
        lost, refused = await failure(call), await failure(stub.ListChanges(ListChangesRequest()))

    assert (0, end_of(made) - 1) == (len(begun.changes), begun.next_offset)
    assert {ErrorCode.CLUSTER_AUTHORIZATION_FAILED} == {lost.code, refused.code}


@pytest.mark.parametrize(
    ("method", "request_", "code", "words"),
    [
        ("ListChanges", ListChangesRequest(subject="x"), ErrorCode.INVALID_REQUEST, "subject 'x': a history is of"),
        ("ListChanges", ListChangesRequest(limit=1_001), ErrorCode.INVALID_REQUEST, "at most 1,000 changes"),
        ("ListChanges", ListChangesRequest(page_token="1.2"), ErrorCode.INVALID_REQUEST, "page_token '1.2': it must"),
        ("ListChanges", ListChangesRequest(to=LogPlace(offset=-1)), ErrorCode.OFFSET_OUT_OF_RANGE, "to -1: the datab"),
        ("GetImage", GetImageRequest(at=LogPlace(offset=999)), ErrorCode.OFFSET_OUT_OF_RANGE, "at 999: the database"),
        ("DiffImages", DiffImagesRequest(to=LogPlace(offset=999)), ErrorCode.OFFSET_OUT_OF_RANGE, "to 999: the datab"),
        ("WatchImage", WatchImageRequest(subject="x"), ErrorCode.INVALID_REQUEST, "subject 'x': a history is of"),
        (
            "WatchImage",
            WatchImageRequest(from_offset=999),
            ErrorCode.OFFSET_OUT_OF_RANGE,
            "has not come there within 0 s",
        ),
    ],
)
async def test_what_cannot_be_told_is_refused(
    written: tuple[str, Written],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    request_: Any,
    code: ErrorCode,
    words: str,
) -> None:
    monkeypatch.setattr(changes, "WAIT_S", 0.0)
    async with serving(written[0]) as stub:
        error = await failure(getattr(stub, method)(request_))

    assert (code, True) == (error.code, words in error.message), error


async def test_without_a_database_that_can_be_read_it_says_so(tmp_path: Path) -> None:
    for url, code in (
        (None, ErrorCode.INVALID_REQUEST),
        (f"sqlite:///{tmp_path}/none.db", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ):
        async with serving(url) as stub:
            assert code is (await failure(stub.ListChanges(ListChangesRequest()))).code
            assert code is (await failure(stub.WatchImage(WatchImageRequest()))).code
            assert code is (await failure(stub.GetImage(GetImageRequest(at=LogPlace(offset=1))))).code
    assert not (tmp_path / "none.db").exists()
