"""Why a candidate states only what it has flushed, and why a vote is compared with the log every time.

Node 3 has `b` in its log but not on its disk, while 1 and 2 commit it. 1 dies. 3 is voted for by 2, crashes before it
hears of that, forgets `b`, and asks again in the same epoch. Either rule alone keeps it from leading without `b`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.nouns import OffsetAndEpoch
from quorate.raft import matrix, voting
from quorate.raft.log import LogView
from quorate.raft.messages import VoteRequest
from quorate.raft.roles import Role, Unattached
from quorate.raft.step_context import StepContext
from tests.raft.scenario import Script

STORY = """
start voters=1,2,3
timeout 1
append 1 a
hold 3
append 1 b
crash 1
timeout 2
lose VoteResponse epoch=2
timeout 3
crash 3
heal
restart 3
timeout 3
timeout 2
timeout 3
timeout 2
"""


def claim_all(log: LogView) -> OffsetAndEpoch:
    """As if what is written were kept."""
    return log.last


def repeat_vote(turn: StepContext, role: Role, request: VoteRequest) -> Role | None:
    """As Kafka: who has the vote of this epoch has it, whatever its log."""
    if isinstance(role, Unattached) and role.voted == request.replica and not request.pre_vote:
        request = replace(request, last=max(request.last, turn.log.last))
    return voting.answer_vote(turn, role, request)


@pytest.mark.parametrize(("claims_all", "repeats"), [(False, False), (True, False), (False, True), (True, True)])
def test_either_rule_keeps_a_committed_record(claims_all: bool, repeats: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if claims_all:
        monkeypatch.setattr(LogView, "last_flushed", property(claim_all))
    if repeats:
        rows = {key: repeat_vote if how is voting.answer_vote else how for key, how in matrix.ROWS.items()}
        monkeypatch.setattr(matrix, "ROWS", rows)
    script = Script()

    def tell() -> None:
        for command in STORY.splitlines():
            script.run(command)

    if claims_all and repeats:
        tell()
        script.log("3")

        assert "2 e1 b" not in script.take_output()[-1]  # it leads, and 2 refuses to cut what is committed
    else:
        tell()
        script.log("2")

        assert "2 e1 b" in script.take_output()[-1]
