"""`quorate restart-safe --controllers`: which voters can be restarted one after the other, as text or JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed, Unreached
from quorate.cli.live import LiveQuorum
from quorate.errors import ApiError
from quorate.network.quorum_view import describe_quorum
from quorate.nouns import NodeId
from quorate.what_if import Quorum, VoterRestart, plan_voter_restarts, quorum_of

__all__ = ["ask"]


def ask(live: LiveQuorum, *, controllers: Collection[NodeId], output: str) -> bool:
    """Prints in which order voters can be restarted, and why others cannot; returns whether all are safe now.

    It is about all voters if none is named. Of several that are named it returns whether each has a place in the order.
    Raises Unreached if no leader answers, Failed for one that is no voter; Misused, OSError.
    """
    endpoints, config = live.endpoints(), live.config()
    try:
        quorum = quorum_of(asyncio.run(describe_quorum(endpoints, config)))
        plan = plan_voter_restarts(quorum, controllers)
    except TimeoutError as problem:
        raise Unreached(f"{live.bootstrap}: {problem}") from None
    except ApiError as problem:
        raise Failed(f"{live.bootstrap}: {problem}") from None
    behind = {each.id: why for each in quorum.voters if (why := quorum.trouble(each)) is not None}
    if is_document(output):
        print_document(_json(quorum, plan, behind), output)
    else:
        print_lines(_text(quorum, plan, behind))
    return all(each.has_place if len(set(controllers)) > 1 else each.is_safe_now for each in plan)


def _text(quorum: Quorum, plan: Sequence[VoterRestart], behind: Mapping[NodeId, str]) -> Iterator[str]:
    yield f"{len(quorum.voters)} voters, a majority is {quorum.majority}; one at a time, the next once it keeps up:"
    safe = [each for each in plan if each.has_place]
    for place, each in enumerate(safe, 1):
        later = "" if each.is_safe_now else f", not before {','.join(map(str, each.after))} keeps up"
        yield f"  {place:3}. controller {each.voter_id}{': the leader, an election follows' * each.is_leader}{later}"
    if not safe:
        yield "  none is safe"
    for each in plan[len(safe) :]:
        others = ",".join(map(str, each.others)) or "none"
        yield f"not safe: controller {each.voter_id}: without it {others} keep up, and a majority is {each.majority}"
    for voter_id, why in sorted(behind.items()):
        yield f"controller {voter_id} {why}"


def _json(quorum: Quorum, plan: Sequence[VoterRestart], behind: Mapping[NodeId, str]) -> dict[str, Any]:
    return {
        "leader": quorum.leader_id,
        "voters": [each.id for each in quorum.voters],
        "majority": quorum.majority,
        "restarts": [
            {
                "controller": each.voter_id,
                "safe": each.is_safe_now,
                "after": list(each.after),
                "leader": each.is_leader,
                "keepUpWithoutIt": list(each.others),
            }
            for each in plan
        ],
        "behind": [{"controller": voter_id, "why": why} for voter_id, why in sorted(behind.items())],
    }
