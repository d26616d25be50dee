"""One request on its way through a controller: what is asked, by whom, and whether it is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quorate.controller.delegation_tokens import Allows, allows_all
from quorate.controller.repeats import RequestId
from quorate.nouns import ANONYMOUS, Offset, Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a handler gets, whatever door it came through.

    `asked` is Kafka's request. With `validate_only` nothing is written, and the answer's response is a Proposal: what
    would be answered, and the records that would be written.
    """

    rpc: str
    asked: Any
    principal: Principal = ANONYMOUS
    host: str = ""
    """Where the caller is, as the server sees it; empty for this controller itself."""
    client_id: str = ""
    """What the caller calls itself: its share of a quota goes by that, and nothing else. KIP-599."""
    validate_only: bool = False
    request_id: RequestId | None = None
    """Of a request that may be sent again without being meant again."""
    as_of: Offset | None = None
    """Of a read that is to see the state at this offset, which is held; the present if None."""
    allows: Allows = allows_all
    """What the caller may do to single resources; the call as a whole is granted."""
    would_allow: Allows = allows_all
    """The same, for what is only to be told: nothing hangs on it, so that the audit log has nothing of it."""
