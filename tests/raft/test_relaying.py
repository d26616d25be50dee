"""A follower serves observers what is committed, and nothing else to nobody else."""

from __future__ import annotations

import pytest

from kraft import Uuid
from quorate.nouns import ReplicaKey
from quorate.raft import follower_fetch
from quorate.raft.messages import FetchRequest, FetchSnapshotRequest
from quorate.raft.roles import Follower
from tests.raft.scenario import Script
from tests.raft.voter_verbs import ADMIN

OBSERVER = ReplicaKey(9)

# Node 4 has two records of epoch 1, leader-change and a, and two of epoch 2, leader-change and b; b is not committed.
STORY = """
led voters=1,2,3 observers=4
append 1 a
kill 1
advance 100
restart 1
advance 600
hold 1
hold 2
hold 3
append 2 b
"""


def told(story: str) -> Script:
    script = Script()
    for command in story.splitlines():
        script.run(command)
    script.take_output()
    return script


def answer(script: Script, request: FetchRequest | FetchSnapshotRequest) -> list[str]:
    """What node 4 answers at once."""
    node = script.nodes[4]
    node.core.step(request, script.clocks[4])
    script.after(node)
    script.settle()
    return [line.removeprefix("4 → admin ") for line in script.take_output() if line.startswith("4 → admin ")]


def fetch(
    offset: int, epoch: int, *, replica: ReplicaKey = OBSERVER, from_any: bool = True, max_wait_ms: int = 0
) -> FetchRequest:
    return FetchRequest(
        epoch=2,
        replica=replica,
        fetch_offset=offset,
        last_fetched_epoch=epoch,
        max_bytes=100,
        max_wait_ms=max_wait_ms,
        high_watermark=3,
        from_any=from_any,
        reply_to=(ADMIN, 0, None),
    )


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (0, 0, "records=0..3"),
        (2, 1, "records=2..3"),  # b is not among them
        (3, 2, ""),
        (4, 2, ""),  # the asker may have b from the leader, and is left alone
        (9, 2, ""),  # what lies so far ahead, only the leader can judge
        (3, 1, "diverging=(2, e1)"),  # offset 2 is known to be of epoch 2
        (9, 1, "diverging=(2, e1)"),
    ],
)
def test_a_relay_answers_as_a_leader_whose_log_ends_at_its_high_watermark(
    offset: int, epoch: int, expected: str
) -> None:
    script = told(STORY)

    assert [" ".join(f"FetchResponse epoch=2 {expected} hw=3".split())] == answer(script, fetch(offset, epoch))


@pytest.mark.parametrize(
    "request_",
    [
        fetch(0, 0, from_any=False),
        fetch(0, 0, replica=ReplicaKey(3)),
        FetchSnapshotRequest(
            epoch=2,
            replica=OBSERVER,
            snapshot_id=told(STORY).nodes[4].core.log.last,
            position=0,
            max_bytes=10,
            reply_to=(ADMIN, 0, None),
        ),
    ],
    ids=["not asked for", "a voter's", "a piece of a snapshot, not asked for"],
)
def test_whoever_is_not_to_be_relayed_is_sent_to_the_leader(request_: FetchRequest | FetchSnapshotRequest) -> None:
    script = told(STORY)

    (refusal,) = answer(script, request_)
    assert "NOT_LEADER_OR_FOLLOWER" in refusal


EIGHT, NINE = (Uuid(bytes(15) + each) for each in (b"8", b"9"))


@pytest.mark.parametrize(
    "readers",
    [
        (ReplicaKey(9, NINE), ReplicaKey(9, EIGHT)),
        (ReplicaKey(-1, NINE), ReplicaKey(-1, EIGHT)),
        (ReplicaKey(-1), ReplicaKey(-1)),
    ],
    ids=["with an id", "without one", "that nothing tells apart"],
)
def test_fetches_without_news_are_held(readers: tuple[ReplicaKey, ReplicaKey]) -> None:
    script = told(STORY)

    for reader in readers:
        assert [] == answer(script, fetch(3, 2, replica=reader, max_wait_ms=400))
    script.run("flush 1")
    script.run("flush 2")
    assert ["4 → admin FetchResponse epoch=2 records=3..4 hw=4"] * 2 == [
        line for line in script.take_output() if line.startswith("4 → admin ")
    ]


def test_a_relay_that_follows_another_leader_says_so_to_those_who_wait() -> None:
    script = told(STORY)

    assert [] == answer(script, fetch(3, 2, max_wait_ms=400))
    script.run("kill 2")
    script.run("advance 100")
    assert "4 → admin FetchResponse epoch=2 NOT_LEADER_OR_FOLLOWER hw=-1" in script.take_output()


CIRCLE = """
led voters=1,2,3 observers=4,5
kill 4
relay 4 5
restart 4
advance 600
kill 5
relay 5 4
restart 5
advance 2600
cut 1 2 3
advance 9000
"""


@pytest.mark.parametrize("tells_age", [True, False])
def test_two_relays_of_each_other_notice_that_the_leader_is_gone_by_the_age_of_their_news(
    tells_age: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not tells_age:
        monkeypatch.setattr(follower_fetch, "_silent_ms", lambda turn, role: 0)
    script = told(CIRCLE)

    follow = [isinstance(script.nodes[id].core.role, Follower) for id in (4, 5)]
    assert [not tells_age] * 2 == follow


def test_a_node_that_is_to_vote_asks_the_leader_whatever_relays_it_has() -> None:
    script = told("led voters=1,2,3\ncrash 3\nrelay 3 2\nrestart 3\nshow messages\nadvance 600")
    script.run("append 1 a")

    assert "3 → 1 FetchRequest epoch=1 from=2 e1 hw=1" in script.take_output()
