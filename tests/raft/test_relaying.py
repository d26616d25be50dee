"""A follower serves observers what is committed, and nothing else to nobody else."""

from __future__ import annotations

import pytest

from kraft import Uuid
from quorate.nouns import ReplicaKey
from quorate.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest
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


def test_a_relay_says_how_long_ago_it_heard_the_leader() -> None:
    script = told(STORY)
    script.run("cut 1 2 3")
    script.run("advance 700")
    node = script.nodes[4]

    node.core.step(fetch(0, 0), script.clocks[4])
    (said,) = node.core.ready().answers
    assert isinstance(said, FetchResponse)
    assert 700 == said.silent_ms


def test_a_relay_that_follows_another_leader_says_so_to_those_who_wait() -> None:
    script = told(STORY)

    assert [] == answer(script, fetch(3, 2, max_wait_ms=400))
    script.run("kill 2")
    script.run("advance 100")
    assert "4 → admin FetchResponse epoch=2 NOT_LEADER_OR_FOLLOWER hw=-1" in script.take_output()
