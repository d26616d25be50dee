"""Why a voter whose disk has lost what it had acknowledged does not vote before it has fetched that again.

Node 2 has `b` on its disk, and so it is committed; 3 does not have it. 2 goes down, and when it is back a part of its
log has rotted away, `b` with it. 1 dies. If 2 voted now, it would elect 3, and `b` would be gone.
"""

from __future__ import annotations

import pytest

from quorate.raft import Ready
from tests.raft.cluster import Node
from tests.raft.scenario import Script

STORY = """
led voters=1,2,3
append 1 a
cut 3
append 1 b
crash 2
rot 2 1 {word}
heal
crash 1
restart 2
timeout 3
advance 3000
restart 1
advance 8000
"""


@pytest.mark.parametrize(("word", "outcome"), [("", "kept"), ("unnoticed", "lost")])
def test_what_is_committed_outlives_a_disk_that_knows_of_its_loss(word: str, outcome: str) -> None:
    script = Script()
    for command in STORY.format(word=word).splitlines():
        script.run(command)
    script.take_output()

    for id in "123":
        script.log(id)
    logs = script.take_output()
    assert 1 == len({tuple(log.split("   ")[:4]) for log in logs}), logs
    assert (outcome == "kept") == ("e1 b" in logs[0]), logs
    script.run("recovering")
    assert ["recovering: none"] == script.take_output()


TOLD = "voter 2 fetches from offset 1; it has acknowledged everything below offset 3 in epoch 1"


@pytest.mark.parametrize(("rot", "expected"), [("rot 2 1", [TOLD]), ("rot 2 1 unnoticed", [TOLD]), ("", [])])
def test_a_leader_tells_of_a_voter_that_has_lost_what_it_acknowledged(rot: str, expected: list[str]) -> None:
    """Also where the voter itself does not know it: its whole directory was put back from an older copy."""
    told: list[str] = []

    def note(node: Node, ready: Ready) -> None:
        told.extend(ready.forgetful)

    script = Script(judge=note)
    for command in ("led voters=1,2,3", "append 1 a", "append 1 b", "crash 2", rot, "restart 2", "advance 3000"):
        script.run(command)

    assert expected == [each.partition(", and is counted")[0] for each in told]
