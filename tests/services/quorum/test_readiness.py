"""When a quorum node is ready: what its role and its log say, and for how long that is believed."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import pytest

from quorate.errors import ErrorCode
from quorate.nouns import Offset, ReplicaKey, Uuid
from quorate.raft.core import Raft
from quorate.raft.messages import FetchRequest, FetchResponse
from quorate.raft.roles import Follower
from quorate.runtime.logging.logs import start_logs
from services.quorum.readiness import Readiness, is_caught_up
from services.quorum.room import LITTLE_ROOM, Room
from tests.services.clocks import MovedClock
from tests.services.nodes import open_disk, sole_leader

LAG_MAX_MS = 2_000


def follower(directory: Path, *, high_watermark: Offset) -> Raft:
    """A node with an empty log that does not vote; it has heard from the leader that so much is committed."""
    core = Raft(
        node=ReplicaKey(9, Uuid(bytes(15) + b"\x07")),
        cluster_id="c",
        log=open_disk(directory).view(),
        election=None,
        random=Random(1),
        now_ms=0,
        bootstrap=[1],
    )
    for error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE):  # the first answer says who leads
        (send,) = [each for each in core.ready().requests if isinstance(each.request, FetchRequest)]
        answer = FetchResponse(
            epoch=1, leader_id=1, error=error, high_watermark=high_watermark, reply_to=send.request.reply_to
        )
        core.step(answer, 0)
    assert isinstance(core.role, Follower), core.role
    return core


@pytest.mark.parametrize(
    ("high_watermark", "joins", "expected"),
    [
        pytest.param(0, False, True, id="it has all that is committed"),
        pytest.param(7, False, False, id="it lacks records"),
        pytest.param(-1, False, False, id="its leader does not know what is committed"),
        pytest.param(0, True, False, id="it has all, and does not vote yet"),
    ],
)
def test_a_follower_is_ready_by_its_log_and_its_vote(
    tmp_path: Path, high_watermark: Offset, joins: bool, expected: bool
) -> None:
    core = follower(tmp_path, high_watermark=high_watermark)

    assert expected is is_caught_up(core, joins=joins)


async def test_a_leader_is_ready_once_its_epoch_has_a_committed_record(tmp_path: Path) -> None:
    async with sole_leader(tmp_path) as driver:
        assert is_caught_up(driver.core, joins=True)


def test_a_node_stays_ready_for_the_lag_that_is_allowed_and_no_longer(tmp_path: Path) -> None:
    clock = MovedClock()
    core = follower(tmp_path, high_watermark=0)
    readiness = Readiness(core, clock, lag_max_ms=LAG_MAX_MS, joins=False)
    found = [readiness.is_ready()]
    core.peer_lost(1, 0)
    for clock.now_ms in (LAG_MAX_MS, LAG_MAX_MS + 1):
        found.append(readiness.is_ready())

    assert [True, True, False] == found


@pytest.mark.parametrize(
    ("least_bytes", "high_watermark", "expected"), [(0, 0, True), (1 << 62, 0, False), (1 << 62, 7, False)]
)
def test_a_node_with_too_little_room_is_not_ready_and_says_so_also_if_it_lacks_records(
    restored_logs: None, tmp_path: Path, least_bytes: int, high_watermark: int, expected: bool
) -> None:
    stream = io.StringIO()
    start_logs({"QUORATE_LOG_FORMAT": "json"}, stream)
    clock = MovedClock()
    core = follower(tmp_path, high_watermark=high_watermark)
    disk = open_disk(tmp_path)
    room = Room(disk, clock, least_bytes=least_bytes)

    assert expected is Readiness(core, clock, lag_max_ms=LAG_MAX_MS, joins=False, room=room).is_ready()
    assert bool(least_bytes) is (LITTLE_ROOM in stream.getvalue())
    disk.close()
