"""The request context that a handler gets: the Kafka request, its caller, its deadline, and its dry-run flag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from quorate.authorizer import Requester
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, finishing
from quorate.controller.engine.deduplication import RequestId
from quorate.nouns import ANONYMOUS, Offset, Principal
from services.controller.api import Api
from services.controller.deadlines import Deadline

__all__ = ["Call", "Caller"]


class Caller(NamedTuple):
    """The sender of a request: its principal, its IP address, and its client id."""

    principal: Principal = ANONYMOUS
    host: str = ""
    """As the server sees it, or those who passed the request on; empty for this controller itself."""
    client_id: str = ""
    """The client id that the caller states, unverified; only quotas use it. KIP-599."""
    is_token: bool = False
    """Whether it has logged in with a delegation token, by a call's metadata."""
    passed_on_by: tuple[Requester, ...] = ()
    """Those that passed the request on and speak for their own node alone, as a broker with an Envelope does."""

    @property
    def requester(self) -> Requester:
        """The caller's principal and IP address, as the authorizer and the audit log know it; not who passed it on."""
        return Requester(principal=self.principal, host=self.host)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a handler; the same for an RPC, for Submit and for AdminStream.

    `asked` is Kafka's request. With `validate_only` nothing is written, and the response is a Proposal: the answer that
    would be given, and the records that would be written.
    """

    api: Api
    asked: Any
    caller: Caller = Caller()
    validate_only: bool = False
    timeout_ms: int | None = None
    """The time limit for the decision to begin, in ms; None for no limit. See `deadlines`."""
    deadline: Deadline | None = None
    """The running timer of `timeout_ms`; None before it starts."""
    request_id: RequestId | None = None
    """The deduplication id: a retry with the same id gets the first answer. None for a request without one."""
    as_of: Offset | None = None
    """A read sees the state at this offset, which the timeline keeps; None for the current state."""
    allows: Allows = allows_all
    """Answers whether the caller may do an operation on one resource; the call as a whole is already authorized."""
    with_refusals: Callable[[Any], Any] | None = None
    """Adds the refusals of the items that were taken out of `asked`, to Kafka's response; None if there are none."""
    would_allow: Allows = allows_all
    """As `allows`, but without an audit entry: for operations that the response only lists as allowed."""

    def deciding(self, command: Command[Any]) -> Command[Any]:
        """Returns `command`, whose response then has the refusals of the items that were taken out of the request, too.

        So they are in the stored answer that a retry gets.
        """
        return command if self.with_refusals is None else finishing(command, self.with_refusals)
