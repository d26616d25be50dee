"""An observer finds in its state the same as the doctor; who can be restarted is what restart-safe says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from google.protobuf import json_format

from deploy.local.ports import free_ports
from kraft.service.observer_pb2 import ExamineRequest, ExamineResponse
from kraft.service.observer_pb2_grpc import ObserverStub, add_ObserverServicer_to_server
from quorate.controller.configs.settings import ControllerSettings
from quorate.doctor import Facts, examine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.network.quorum_view import View
from quorate.records import ConfigRecord, NoOpRecord
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Channels, open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from quorate.what_if import plan_restarts
from services.observer import examinations, quorum_progress
from services.observer.examinations import Restartable
from services.observer.quorum_progress import QuorumProgress, of_nodes
from services.observer.servicer import ObserverService
from services.observer.spans import SpanStore
from tests.cli.directories import Ran, run
from tests.metadata.histories import write
from tests.runtime.test_log_reader import node
from tests.services.observer.pages import Served, page_of
from tests.services.scripted import WITHIN_S, listening


def replica_of(seed: int) -> Replica:
    """A replica that has read a log."""
    replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    records = write(Random(seed), 120)
    replica.state.apply_all(records, 0)
    replica.state.settle()
    replica.applied = len(records)
    return replica


async def examined(served: Served, **request: object) -> ExamineResponse:
    answer = await served.call("Examine", request)
    assert 200 == answer.status, answer
    return json_format.Parse(answer.body, ExamineResponse())


async def test_findings_are_those_of_the_doctor_and_restarts_those_of_restart_safe() -> None:
    replica = replica_of(3)
    copy = ClusterState()
    copy.load([record for record, _ in replica.state.records()], replica.applied)
    expected = examine(Facts(state=copy, voters=None, kraft_version=None, now_ms=None))
    plan = plan_restarts(
        copy, [each.id for each in copy.brokers], settings=ControllerSettings(), next_offset=replica.applied
    )
    async with page_of(replica=replica) as served:
        whole = await examined(served, limit=1_000)
        paged = [await examined(served, skip=skip, limit=1) for skip in range(len(expected))]
        of_one = await examined(served, search=expected[0].subject.upper(), limit=1_000)
        refused = [await served.call("Examine", each) for each in ({"limit": 1_001}, {"skip": -1})]

    assert [(each.code, each.subject, each.sentence) for each in expected] == [
        (each.code, each.subject, each.sentence) for each in whole.findings
    ]
    assert list(whole.findings) == [each.findings[0] for each in paged]
    assert len(expected) == whole.matching_count == sum(whole.counts.values()) > 3
    assert 0 < of_one.matching_count < len(expected)
    assert [(each.broker_id, len(each.harmed), [*each.after]) for each in plan] == [
        (each.broker_id, each.harmed_count, [*each.after]) for each in whole.restarts
    ]
    assert [400, 400] == [each.status for each in refused]


async def test_who_asks_meanwhile_shares_one_examination_and_a_young_one_serves_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    made = asyncio.create_subprocess_exec

    async def counted(*command: str, **options: object) -> asyncio.subprocess.Process:
        begun.append(command[-1])
        return await made(*command, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(examinations.asyncio, "create_subprocess_exec", counted)
    replica, restartable = replica_of(3), Restartable()
    async with page_of(replica=replica, restartable=restartable) as served:
        both = await asyncio.gather(examined(served), examined(served))
        end = replica.applied
        record = ConfigRecord(TOPIC, "t", "min.insync.replicas", "2")
        replica.state.apply(record, end)
        replica.applied = end + 1
        restartable.hear([NoOpRecord()])
        young = await examined(served)
        restartable.hear([record])
        outdated = await examined(served)

    assert 1 == len(begun)
    assert [end, end, end + 1, end + 1] == [each.applied_offset for each in (*both, young, outdated)]
    assert young.age_ms <= outdated.age_ms
    assert (True, 0) == (outdated.restarts_outdated, len(outdated.restarts))
    for each in (*both, young):
        assert (False, both[0].restarts) == (each.restarts_outdated, each.restarts)
        assert (end, both[0].findings) == (each.next_offset, each.findings)
    assert len(both[0].restarts) > 0


async def test_of_the_state_of_an_observer_that_is_cut_off_no_plan_is_made_and_the_doctor_says_so() -> None:
    led_ms, store = [5_000], SpanStore()
    server, service = Server(), ObserverService(replica_of(3), store, led_ms=lambda: led_ms[0])
    server.add("kraft.service.Observer", add_ObserverServicer_to_server, service)
    plans = ["restart-safe"], ["what-if", "--broker", "1"], ["reassign", "plan", "--drain", "1"], ["features", "plan"]
    async with asyncio.timeout(WITHIN_S), listening(server) as address, open_channel(address) as channel:

        async def asked(*command: str) -> Ran:
            return await asyncio.to_thread(run, *command, "--observer", address)

        led = [await asked(*each) for each in plans]
        led_ms[0] = 5_001
        late = [await asked(*each) for each in plans]
        doctor, told = await asked("doctor"), await ObserverStub(channel).Examine(ExamineRequest())
        led_ms[0] = -1
        never = await asked("restart-safe")
    await service.close()
    await store.close()

    why = f"{address}: the observer has known no leader of the quorum for 5 s: its state may be long over; --as-of"
    assert ["known no leader" in each.out + each.err for each in led] == [False] * 4
    assert [(1, "", True)] * 4 == [(each.code, each.out, why in each.err) for each in late]
    assert "note: the observer has known no leader of the quorum for 5 s" in doctor.out
    assert 5_001 == told.led_ms
    assert (1, True) == (never.code, "has known no leader of the quorum yet" in never.err)


async def test_before_the_log_is_here_and_without_a_quorum_it_says_so() -> None:
    async with page_of() as served:
        empty, nobody = await served.call("Examine", {}), await served.call("ExamineQuorum", {})

    assert (503, True) == (empty.status, "has not loaded its state yet" in empty.document["message"])
    assert (503, True) == (nobody.status, "knows no quorum" in nobody.document["message"])


async def test_the_leader_of_the_quorum_is_found_and_asked_once_for_many(tmp_path: Path) -> None:
    (nobody,) = free_ports(1)
    async with node(tmp_path) as (driver, log):
        channels = Channels(open_channel)
        ask, asked = of_nodes([f"127.0.0.1:{nobody}", log], channels), list[View]()

        async def counted() -> View:
            asked.append(await ask())
            return asked[-1]

        progress = QuorumProgress(counted)
        told = await asyncio.gather(*(progress.tell() for _ in range(5)))
        lost = QuorumProgress(of_nodes([f"127.0.0.1:{nobody}"], channels))
        with pytest.raises(ApiError, match=rf"no leader of the quorum answers; .* 127.0.0.1:{nobody}: UNAVAILABLE"):
            await lost.tell()
        await channels.close()

    (voter,) = told[0].voters
    assert 1 == len(asked)
    assert [told[0]] * 5 == told
    assert (1, 1, 1) == (told[0].leader_id, told[0].majority, voter.replica_id)
    assert (driver.core.log.leo, 0, "") == (voter.log_end_offset, voter.lag, voter.trouble)
    assert [(1, False, [])] == [(each.voter_id, each.is_safe, list(each.others)) for each in told[0].restarts]


async def test_without_a_leader_all_who_ask_meanwhile_and_soon_after_are_told_so_by_one_question() -> None:
    begun, ended = list[None](), asyncio.Event()

    async def leaderless() -> View:
        begun.append(None)
        await ended.wait()
        raise ApiError(ErrorCode.NETWORK_EXCEPTION, "nobody leads")

    progress = QuorumProgress(leaderless)
    asking = [asyncio.ensure_future(progress.tell()) for _ in range(4)]
    await asyncio.sleep(0)
    ended.set()
    told = [*await asyncio.gather(*asking, progress.tell(), return_exceptions=True)]

    assert (1, ["NETWORK_EXCEPTION: nobody leads"] * 5) == (len(begun), [str(each) for each in told])


async def test_nobody_waits_for_the_leader_as_often_as_others_have_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_progress, "ASKED_S", 0.1)
    begun = list[None]()

    async def silent() -> View:
        begun.append(None)
        await asyncio.Event().wait()
        raise AssertionError

    progress = QuorumProgress(silent)
    told = await asyncio.gather(*(progress.tell() for _ in range(4)), return_exceptions=True)

    assert 1 == len(begun)
    assert ["NETWORK_EXCEPTION: no leader of the quorum answers: none within 0.1 s"] * 4 == [str(each) for each in told]
