"""The page's listener: what it answers is what gRPC answers, to whom that answers, and nobody holds it up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from kraft.service.observer_pb2 import (
    DiffImagesRequest,
    GetTraceRequest,
    ListChangesRequest,
    ListTracesRequest,
    QueryRequest,
)
from quorate.authorizer import StandardAuthorizer
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.metadata.configs import TOPIC
from quorate.records import ConfigRecord, RemoveAccessControlEntryRecord
from quorate.runtime.access.entry_guard import EntryGuard
from quorate.runtime.calls.admission import CallLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from services.observer.page import http, large, listener
from tests.controller.clusters import uuid
from tests.metadata.histories import write
from tests.network.certificates import Authority, authority, der
from tests.runtime.test_entry_guard import Door, entry
from tests.services.observer.pages import OBSERVER, Served, page_of
from tests.services.scripted import LOOPBACK
from tests.sql.test_state_database import Written
from tests.sql.test_state_past import whole

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Written]]:
    """A database of a log, by its URL, and what may write on."""
    url = f"sqlite:///{tmp_path_factory.mktemp('state') / 'state.db'}"
    made = Written(url)
    made.follow(whole(write(Random(1), 60)))
    made.follow([ConfigRecord(TOPIC, "evil", "retention.ms", EVIL)])
    made.follow([])
    made.write()
    yield url, made
    made.close()


def documents(messages: list[Any]) -> list[Any]:
    return [json.loads(json_format.MessageToJson(each)) for each in messages]


ASKED: dict[str, Any] = {
    "ListChanges": ListChangesRequest(subject="configs", limit=7),
    "ListTraces": ListTracesRequest(),
    "DiffImages": DiffImagesRequest(),
    "Query": QueryRequest(sql="SELECT name, 1.5 AS real, NULL AS none, x'00ff' AS blob FROM topics"),
}
REFUSED: dict[str, Any] = {
    "ListChanges": ListChangesRequest(limit=1_001),
    "GetTrace": GetTraceRequest(trace_id="x"),
    "DiffImages": DiffImagesRequest(subject="nothing"),
    "Query": QueryRequest(sql="DELETE FROM topics"),
}


async def by_grpc(served: Served, method: str, request: Any) -> list[Any]:
    assert served.stub is not None
    call = getattr(served.stub, method)(request)
    return [part async for part in call] if isinstance(call, grpc.aio.UnaryStreamCall) else [await call]


@pytest.mark.parametrize("method", ASKED)
async def test_an_answer_is_that_of_the_rpc_as_proto3_json(written: tuple[str, Written], method: str) -> None:
    async with page_of(written[0]) as served:
        expected = documents(await by_grpc(served, method, ASKED[method]))
        answer = await served.call(method, json_format.MessageToDict(ASKED[method]))

    assert (200, expected) == (answer.status, answer.lines)
    assert "default-src 'self'" in answer.fields["content-security-policy"]
    assert "no-store" == answer.fields["cache-control"]


@pytest.mark.parametrize("method", REFUSED)
async def test_a_refusal_has_the_code_and_the_words_of_the_rpc(written: tuple[str, Written], method: str) -> None:
    async with page_of(written[0]) as served:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await by_grpc(served, method, REFUSED[method])
        answer = await served.call(method, json_format.MessageToDict(REFUSED[method]))

    assert (400, "application/json") == (answer.status, answer.fields["content-type"])
    assert refused.value.code().value[0] == answer.document["code"]
    assert refused.value.details() == answer.document["message"]
    assert ErrorCode.INVALID_REQUEST.name == answer.document["details"][0]["reason"]


async def test_a_refusal_after_the_first_part_is_the_last_line(written: tuple[str, Written]) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)"
    fails = f"{numbers} SELECT CASE WHEN i < 2500 THEN i ELSE json('{{') END AS i FROM n"
    async with page_of(written[0]) as served:
        answer = await served.call("Query", {"sql": fails})

    assert (200, ["i"]) == (answer.status, answer.lines[0]["columns"])
    assert 1_000 == len(answer.lines[1]["rows"])
    assert "malformed JSON" in answer.lines[-1]["error"]["message"]


async def test_a_watch_is_events_that_go_on_from_the_last_id(written: tuple[str, Written]) -> None:
    url, made = written
    async with page_of(url) as served:
        reader, writer = await asyncio.open_connection(LOOPBACK, served.port)
        at = f"GET /{OBSERVER}/WatchImage?subject=configs HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{at}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        first = await event(reader)
        made.follow([ConfigRecord(TOPIC, "evil", "retention.ms", "1000")])
        made.write()
        told = await event(reader)
        again, more = await asyncio.open_connection(LOOPBACK, served.port)
        more.write(f"{at}Last-Event-ID: {first[0]}\r\n\r\n".encode())
        await again.readuntil(b"\r\n\r\n")
        begun, same = await event(again), await event(again)
        writer.close()
        more.close()

    assert b"Content-Type: text/event-stream" in head
    assert first == begun
    assert told == same
    assert EVIL == told[1]["changes"][0]["row"]["before"][0]["value"]["text"]
    assert int(told[1]["nextOffset"]) == told[0] == int(first[1]["nextOffset"]) + 1


async def event(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """The next event with an id: its id and its data."""
    await reader.readuntil(b"id: ")
    number = int((await reader.readuntil(b"\n")).decode())
    assert b"data: " == await reader.readexactly(6)
    return number, json.loads(await reader.readuntil(b"\n"))


async def test_without_a_right_there_is_the_page_and_no_answer_and_a_watch_ends_with_the_right(
    written: tuple[str, Written],
) -> None:
    url, made = written
    door = Door(entry(1, "broker", AclOperation.CLUSTER_ACTION))
    async with page_of(url, guard=door.of_broker) as served:
        reader, writer = await asyncio.open_connection(LOOPBACK, served.port)
        writer.write(f"GET /{OBSERVER}/WatchImage HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await event(reader)
        door.replica.state.apply(RemoveAccessControlEntryRecord(uuid(1)), 1)
        made.follow([ConfigRecord(TOPIC, "evil", "retention.ms", None)])
        made.write()
        await reader.readuntil(b"event: refused\ndata: ")
        lost = json.loads(await reader.readuntil(b"\n"))
        ended = await reader.read()
        writer.close()
        answers = [await served.call(method, {}) for method in ("ListChanges", "Query", "GetImage", "WatchImage")]
        page = await served.ask("GET", "/")

    assert [403] * 4 == [each.status for each in answers]
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name == lost["details"][0]["reason"]
    assert b"0\r\n\r\n" == ended[-5:]
    assert (200, "text/html; charset=utf-8") == (page.status, page.fields["content-type"])


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


async def test_by_tls_a_caller_is_who_its_certificate_says(issuer: Authority) -> None:
    """The subject for one, the SPIFFE id for another; without a certificate there is no answer at all."""
    alice, bob = issuer.issue("alice", "/CN=alice"), issuer.issue("bob", "/CN=b", at="URI:spiffe://here/bob")
    own = issuer.issue("node", "/CN=node")
    transport = Transport(keystore=own, truststore=issuer.certificate)
    replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    replica.state.apply(entry(1, "CN=alice", AclOperation.CLUSTER_ACTION), 0)
    replica.applied, replica.has_caught_up = 1, True
    authorizer = StandardAuthorizer(super_users=frozenset({"User:spiffe://here/bob"}))
    guard = EntryGuard(transport.principal, authorizer, replica, {})
    async with page_of(guard=guard, transport=transport, replica=replica) as served:
        found = [
            await served.ask(
                "POST",
                f"/{OBSERVER}/ListTraces",
                "{}",
                {"Content-Type": "application/json"},
                tls=issuer.client(each),
            )
            for each in (alice, bob, issuer.issue("eve", "/CN=eve"))
        ]
        with pytest.raises(OSError, match=r"certificate required|reset|closed|EOF"):
            await served.ask("GET", "/", tls=issuer.client())
        in_the_clear = await served.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    assert [200, 200, 403] == [each.status for each in found]
    assert b"HTTP" not in in_the_clear


async def test_a_new_certificate_is_that_of_the_next_connection(tmp_path: Path, issuer: Authority) -> None:
    """A message that does not fit is not taken."""
    keystore = tmp_path / "keystore.pem"
    first, second, caller = (issuer.issue(each, f"/CN={each}") for each in ("first", "second", "caller"))
    keystore.write_text(first.read_text())
    transport = Transport(keystore=keystore, truststore=issuer.certificate)
    seen: list[bytes | None] = []
    async with page_of(transport=transport) as served:
        for content in (first.read_text(), second.read_text(), "none"):
            keystore.with_suffix(".new").write_text(content)
            keystore.with_suffix(".new").replace(keystore)
            transport.look()
            _, writer = await asyncio.open_connection(LOOPBACK, served.port, ssl=issuer.client(caller))
            seen.append(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.close()

    assert [der(first), der(second), der(second)] == seen


HEAD = b"Host: localhost\r\n"
BAD = {
    b"GET /\r\n\r\n": 400,
    b"GET / HTTP/3\r\n" + HEAD + b"\r\n": 400,
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n": 421,
    b"GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n": 421,
    b"GET /../http.py HTTP/1.1\r\n" + HEAD + b"\r\n": 404,
    b"GET /%2e%2e/http.py HTTP/1.1\r\n" + HEAD + b"\r\n": 404,
    b"GET /?" + b"&".join([b"a=b"] * 17) + b" HTTP/1.1\r\n" + HEAD + b"\r\n": 400,
    b"GET /?a=%ff HTTP/1.1\r\n" + HEAD + b"\r\n": 400,
    b"PUT / HTTP/1.1\r\n" + HEAD + b"\r\n": 405,
    b"GET /kraft.service.Observer/Query HTTP/1.1\r\n" + HEAD + b"\r\n": 405,
    b"GET /kraft.service.Observer/Nothing HTTP/1.1\r\n" + HEAD + b"\r\n": 404,
    b"GET /kraft.service.Observer/WatchImage?from_offset=-1 HTTP/1.1\r\n" + HEAD + b"\r\n": 400,
    b"POST /kraft.service.Observer/Query HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip\r\n\r\n": 501,
    b"POST /kraft.service.Observer/Query HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"10000\r\n%b\r\n" % bytes(65536) * 5: 413,
    b"POST /kraft.service.Observer/Query HTTP/1.1\r\n" + HEAD + b"Content-Length: 1, 2\r\n\r\n": 400,
    b"POST /kraft.service.Observer/Query HTTP/1.1\r\n" + HEAD + b"Content-Length: 300000\r\n\r\n": 413,
    b"POST /kraft.service.Observer/Query HTTP/1.1\r\n" + HEAD + b"Content-Length: 2\r\n\r\n{}": 415,
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * http.HEAD_BYTES_MAX: 431,
}


@pytest.mark.parametrize(("data", "status"), BAD.items(), ids=range(len(BAD)))
async def test_what_is_no_request_of_the_page_is_refused_with_the_reason(data: bytes, status: int) -> None:
    async with page_of() as served:
        answer = await served.raw(data)

    assert f"HTTP/1.1 {status} ".encode() == answer[:13]
    assert b"default-src 'self'" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_bodies_that_are_no_json_and_calls_of_other_sites_are_refused() -> None:
    async with page_of() as served:
        bodies = ("[" * 100_000, "{", '{"sql": 5}', '{"nothing": 1}', '{"sql": "\\ud800"}')
        bad = [
            await served.ask("POST", f"/{OBSERVER}/Query", each, {"Content-Type": "application/json"})
            for each in bodies
        ]
        elsewhere = [
            await served.call("ListTraces", {}, Origin="http://rebound.example"),
            await served.call("ListTraces", {}, **{"Sec-Fetch-Site": "cross-site"}),
            await served.ask("GET", f"/{OBSERVER}/WatchImage", fields={"Sec-Fetch-Site": "same-site"}),
        ]
        own = await served.call("ListTraces", {}, Origin=f"http://{LOOPBACK}:{served.port}")

    assert [400] * len(bodies) == [each.status for each in bad]
    assert [403] * 3 == [each.status for each in elsewhere]
    assert 200 == own.status


async def test_connections_that_only_stay_open_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_PER_HOST_MAX", 3)
    async with page_of() as served:
        idle = [await asyncio.open_connection(LOOPBACK, served.port) for _ in range(5)]
        ended = {asyncio.ensure_future(reader.read()): number for number, (reader, _) in enumerate(idle)}
        gone = set[int]()
        while len(gone) < 2:
            done, _ = await asyncio.wait(list(ended), return_when=asyncio.FIRST_COMPLETED)
            gone |= {ended.pop(each) for each in done}
        answer = await served.call("ListTraces", {})
        for _, writer in idle:
            writer.close()

    assert ({0, 1}, 200) == (gone, answer.status)


async def test_the_calls_of_the_page_count_with_those_of_grpc(written: tuple[str, Written]) -> None:
    async with page_of(written[0], limits=CallLimits(calls=1, streams=1, streams_per_ip=1)) as served:
        reader, writer = await asyncio.open_connection(LOOPBACK, served.port)
        writer.write(f"GET /{OBSERVER}/WatchImage HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await event(reader)
        with pytest.raises(grpc.aio.AioRpcError, match=r"max\.calls"):
            await by_grpc(served, "ListTraces", ListTracesRequest())
        refused = await served.call("ListTraces", {})
        writer.close()

    assert (429, True) == (refused.status, "max.calls allows" in refused.document["message"])


async def test_who_does_not_take_large_answers_waits_for_its_own_and_holds_up_no_other_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large, "LARGE_PER_HOST_MAX", 1)
    turns, size = large.LargeAnswers(), large.LARGE_BYTES + 1

    async def takes() -> None:
        async with turns.turn("10.0.0.1", size):
            pass

    async with turns.turn("10.0.0.1", size), turns.turn("10.0.0.2", size), turns.turn("10.0.0.1", 1):
        second = asyncio.ensure_future(takes())
        await asyncio.sleep(0)
        waited = not second.done()
    await second

    assert waited


async def test_a_head_is_answered_by_the_head_of_a_get_alone() -> None:
    of_head, of_get = [
        b"%b / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % each for each in (b"HEAD", b"GET")
    ]
    async with page_of() as served:
        whole = await served.raw(of_get)
        alone = await served.raw(of_head)
        then_none = await served.raw(of_head.replace(b"close", b"keep-alive") + b"GET\r\n\r\n")
        bad = [
            await served.ask("HEAD", "/nothing"),
            await served.ask("HEAD", f"/{OBSERVER}/WatchImage"),
            await served.ask("HEAD", f"/{OBSERVER}/Query"),
            await served.ask("HEAD", "/", fields={"Host": "rebound.example"}),
        ]

    assert whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" == alone
    assert (1, 1) == (then_none.count(b"HTTP/1.1 200 "), then_none.count(b"HTTP/1.1 400 "))
    assert then_none.endswith(b"(HTTP/1.1, RFC 9112)\n")
    assert [(404, b""), (405, b""), (405, b""), (421, b"")] == [(each.status, each.body) for each in bad]
    assert all(int(each.fields["content-length"]) > 0 for each in bad)


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_who_waits_for_a_100_is_told_to_send_its_body(written: tuple[str, Written], is_waiting: bool) -> None:
    """And once it has sent a part, as it need not wait, it is not."""
    head = f"POST /{OBSERVER}/ListTraces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    head += b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    async with page_of(written[0]) as served:
        reader, writer = await asyncio.open_connection(LOOPBACK, served.port)
        writer.write(head if is_waiting else head + b"{}")
        first = await reader.readuntil(b"\r\n\r\n")
        if is_waiting:
            writer.write(b"{}")
            second = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        large = await served.raw(head.replace(b"Length: 2", b"Length: 300000"))

    if is_waiting:
        assert b"HTTP/1.1 100 Continue\r\n\r\n" == first
        first = second
    assert first.startswith(b"HTTP/1.1 200 OK")
    assert large.startswith(b"HTTP/1.1 413 ")


async def test_one_connection_answers_requests_one_after_the_other() -> None:
    one = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    async with page_of() as served:
        answer = await served.raw(one + b"\r\n" + one + b"Connection: close\r\n\r\n" + one + b"\r\n")

    assert 2 == answer.count(b"HTTP/1.1 200 OK")
