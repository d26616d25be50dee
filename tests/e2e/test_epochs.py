"""Epochs that leave no room, votes in a node's own id, and an operator who sets an epoch back: at real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from deploy.local.plan import Process, make_plan
from deploy.local.processes import ROOT
from kraft import Uuid
from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.names import PARTITION_DIRECTORY, QUORUM_STATE
from services.quorum import translate
from tests.e2e.nodes import Nodes
from tests.e2e.starting import content, start

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

AHEAD: Final = OffsetAndEpoch(epoch=0, offset=1 << 40)
VOTE: Final = raft.VoteRequest(epoch=40, replica=ReplicaKey(2), last=AHEAD)


@pytest_asyncio.fixture(loop_scope="module")
async def alone(tmp_path: Path) -> AsyncIterator[Nodes]:
    """The only voter of its cluster; formatted, and not started yet."""
    nodes = Nodes(make_plan(tmp_path / "run", voters=1))
    try:
        await nodes.format(1)
        yield nodes
    finally:
        await nodes.stop()


def partition(nodes: Nodes) -> Path:
    return nodes.plan.log_dir(1) / PARTITION_DIRECTORY


def write_state(nodes: Nodes, election: StoredElection) -> None:
    """As a node at kraft.version 0 left it."""
    partition(nodes).mkdir(exist_ok=True)
    ElectionFile(partition(nodes), voters=(1,)).write(election, version=0)


def write_last_epoch(nodes: Nodes) -> None:
    """The epoch that was once granted to anybody who asked for it; such a file is not written any more."""
    write_state(nodes, StoredElection(epoch=3))
    path = partition(nodes) / QUORUM_STATE
    state = json.loads(path.read_bytes().splitlines()[0])
    path.write_text(json.dumps({**state, "leaderEpoch": EPOCHS_END}))


async def reset(process: Process, epoch: object) -> tuple[int, str]:
    """`quorate storage reset-epoch` as an operator has it: exit code, and what it said."""
    config = Path(process.settings["metadata.log.dir"]).parent / f"{process.name}.format.properties"
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.cli", "storage", "reset-epoch", "--config", str(config)),
        *("--epoch", str(epoch)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, output.decode()


@pytest.mark.parametrize(
    ("vote", "error"),
    [
        (raft.VoteRequest(epoch=EPOCHS_END, replica=ReplicaKey(2), last=AHEAD), ErrorCode.INVALID_REQUEST),
        (raft.VoteRequest(epoch=EPOCHS_END - 1, replica=ReplicaKey(2), last=AHEAD), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (raft.VoteRequest(epoch=40, replica=ReplicaKey(1), last=AHEAD), ErrorCode.INVALID_REQUEST),
        (raft.VoteRequest(epoch=40, replica=ReplicaKey(1, Uuid(b"t" * 16)), last=AHEAD), ErrorCode.INVALID_REQUEST),
    ],
    ids=["the largest epoch", "the one before it", "our own id", "our own id on another disk"],
)
async def test_a_vote_that_may_not_be_given_is_refused_and_changes_nothing(
    alone: Nodes, vote: raft.VoteRequest, error: ErrorCode
) -> None:
    await alone.start(1)
    leader = await alone.leader(of=(1,))
    before = (partition(alone) / QUORUM_STATE).read_bytes()
    answer = await alone.stubs[0].Vote(translate.to_vote(vote), timeout=10)
    partition_answer = answer.topics[0].partitions[0]

    assert (error, False) == (partition_answer.error_code, partition_answer.vote_granted)
    assert before == (partition(alone) / QUORUM_STATE).read_bytes()
    assert leader == await alone.leader(of=(1,))


async def test_who_had_voted_for_itself_at_kraft_version_0_goes_on_in_that_epoch(alone: Nodes) -> None:
    write_state(alone, StoredElection(epoch=40, voted=ReplicaKey(1)))
    await alone.start(1)

    assert (1, 40) == await alone.leader(of=(1,))


async def test_a_node_in_an_epoch_that_none_can_follow_starts_after_the_operator_has_set_it_back(alone: Nodes) -> None:
    process = alone.plan.quorum[0]
    write_last_epoch(alone)
    before = content(partition(alone))
    ended = await start("quorum", process.settings, alone.plan.directory)

    assert ExitCode.CORRUPT == ended.code
    assert [True] == ["2147483647" in line and "reset-epoch" in line for line in ended.fatal], ended.fatal
    assert before == content(partition(alone))

    code, said = await reset(process, 7)

    assert 0 == code, said
    assert "epoch 2147483647 is now 7" in said

    await alone.start(1)

    assert (1, 8) == await alone.leader(of=(1,))


async def test_an_epoch_is_not_set_back_under_a_running_node_nor_below_its_log(alone: Nodes) -> None:
    process = alone.plan.quorum[0]
    code, said = await reset(process, 1)

    assert (1, True) == (code, "has not been in any epoch yet" in said), said

    write_state(alone, StoredElection(epoch=49))
    await alone.start(1)

    assert (1, 50) == await alone.leader(of=(1,))

    code, said = await reset(process, 51)

    assert (1, True) == (code, "stop the node first" in said), said

    await alone.running.kill(process)
    before = (partition(alone) / QUORUM_STATE).read_bytes()
    for epoch, words in ((50, "only a lower one"), (EPOCHS_END, "only a lower one"), (49, "ends in epoch 50")):
        code, said = await reset(process, epoch)

        assert (1, True) == (code, words in said), said
    code, said = await reset(process, "soon")

    assert (2, True) == (code, "an epoch is a number" in said), said
    assert before == (partition(alone) / QUORUM_STATE).read_bytes()
