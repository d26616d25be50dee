"""A quorum becomes smaller before its nodes go: by the program that a hook of the Helm chart runs."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from deploy.local.processes import ROOT
from quorate.runtime.event_loop.loop import ExitCode
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.test_first_start import Pods, ended, says
from tests.e2e.voters import FETCH_TIMEOUT_MS, description, planned

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ALL = (1, 2, 3)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pods(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pods]:
    made = Pods(planned(tmp_path_factory.mktemp("nodes"), count=len(ALL)).plan)
    for node in made.plan.quorum:
        node.settings["controller.quorum.auto.join.enable"] = "true"
    await made.start_all(*ALL)
    await made.vote(*ALL)
    yield made
    await made.stop()


async def begin(pods: Pods, *node_ids: int, **settings: str) -> asyncio.subprocess.Process:
    """The program, under way."""
    given = {
        "quorum.node.ids": ",".join(map(str, node_ids)),
        "controller.quorum.bootstrap.servers": ",".join(node.address for node in pods.plan.quorum),
        "cluster.id": pods.plan.cluster_id,
        "security.protocol": "PLAINTEXT",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.quorum.resize"),
        *(part for key, value in given.items() for part in ("--set", f"{key}={value}")),
        cwd=ROOT,
        stdout=PIPE,
        stderr=STDOUT,
    )


async def resize(pods: Pods, *node_ids: int, **settings: str) -> tuple[ExitCode, str]:
    """The program to its end: the exit code, and what it said."""
    return await ended(await begin(pods, *node_ids, **settings))


async def held_up(pods: Pods, why: str, *node_ids: int, **settings: str) -> None:
    """The program says why it cannot go on, and again once it is asked to stop, and fails."""
    child = await begin(pods, *node_ids, **settings)
    try:
        await says(child, why)
        child.terminate()
    finally:
        code, said = await ended(child)

    assert ExitCode.FAILED == code, said
    assert "was asked to stop before the voters had become" in said
    assert why in said


async def test_a_node_that_does_not_vote_does_not_stay_in_place_of_one_that_does(pods: Pods) -> None:
    """Otherwise the quorum would be one of two, and the next lost node would end it."""
    await held_up(pods, "of the nodes that stay, 4 do not vote", 1, 2, 4)
    await pods.vote(*ALL)


async def test_another_cluster_is_left_alone(pods: Pods) -> None:
    await held_up(pods, f"is of cluster {pods.plan.cluster_id}; another is meant", 1, cluster_id="another")
    await pods.vote(*ALL)


async def test_tls_takes_files(pods: Pods) -> None:
    code, said = await resize(pods, 1, security_protocol="SSL")

    assert ExitCode.MISCONFIGURED == code, said
    assert "ssl.keystore.location: is missing" in said


async def test_the_voters_become_fewer_and_those_that_went_stay_out_while_they_run(pods: Pods) -> None:
    """Also the leader: it removes itself last."""
    leader = await pods.leader(*ALL)
    stays = next(node_id for node_id in ALL if node_id != leader)
    code, said = await resize(pods, stays)

    assert ExitCode.STOPPED == code, said
    assert "STEP_DONE" in said
    await eventually(lambda: pods.voters(stays), lambda found: found == [stays])

    code, said = await resize(pods, stays)

    assert ExitCode.STOPPED == code, said
    assert "no voter is to go" in said

    for node_id in {*ALL} - {stays}:
        await pods.running.kill(pods[node_id])
    assert stays == await pods.leader(stays)
    for node_id in sorted({*ALL} - {stays}):  # a pod that comes back joins again, on the same volume
        await pods.start(node_id)
    await pods.vote(*ALL)


async def last_fetch_ms(pods: Pods, node_id: int, leader: int) -> int:
    """When the leader has heard a voter last, in ms since 1970."""
    answer = (await call_with_retries(pods.stub(leader).DescribeQuorum, description())).response
    (voter,) = [each for each in answer.topics[0].partitions[0].current_voters if each.replica_id == node_id]
    return int(voter.last_fetch_timestamp)


async def test_a_rollback_cancels_the_removal_that_could_not_go_on(pods: Pods) -> None:
    """The leader would go on with it later, and remove a voter that is to stay."""
    await pods.vote(*ALL)
    await pods.running.kill(pods[3])
    leader = await pods.leader(1, 2)
    await eventually(partial(last_fetch_ms, pods, 3, leader), lambda ms: time.time() * 1000 - ms > 2 * FETCH_TIMEOUT_MS)
    code, said = await resize(pods, 1, 3, resize_timeout_ms="4000")  # without 3 they would have no majority

    assert ExitCode.FAILED == code, said

    code, said = await resize(pods, *ALL)

    assert ExitCode.STOPPED == code, said
    assert "STEP_CANCELLED" in said
    await pods.start(3)
    await pods.vote(*ALL)
    code, said = await resize(pods, *ALL)
    assert (ExitCode.STOPPED, False) == (code, "cancels" in said), said


async def test_a_lost_quorum_keeps_nobody_from_going_back_to_the_size_that_it_has(pods: Pods) -> None:
    """A rollback that is to mend the quorum runs this first."""
    await pods.vote(*ALL)
    for node_id in ALL[1:]:
        await pods.running.kill(pods[node_id])
    code, said = await resize(pods, *ALL)

    assert ExitCode.STOPPED == code, said
    assert "no voter is to go" in said

    code, said = await resize(pods, 1, resize_timeout_ms="2000")

    assert ExitCode.FAILED == code, said
    assert "the voters have not become 1 in time" in said
