"""Lets callers that may act for the cluster speak to the quorum node and the heartbeat service through a gateway.

These two know the gateway alone, and not its clients; Kafka's controllers take CLUSTER_ACTION for the same
requests. The entries are in the log, so the controller beside the gateway is asked. Super users are let in without it:
a voter or a broker among them does not depend on that controller, as with Kafka's before the entries are loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from kraft.service.controller_pb2 import AuthorizeRequest
from quorate.nouns import Principal
from quorate.runtime.clients.client import call

__all__ = ["ClusterActionGuard"]

DEADLINE_MS: Final = 30_000
"""How long the controller has to say it: by then the client has given up."""


class ClusterActionGuard:
    """Asks the controller whether a request's principal has CLUSTER_ACTION; `controller` is the controller's stub."""

    def __init__(self, controller: Any, super_users: Collection[str]) -> None:
        self._controller = controller
        self._super_users = super_users

    def lets_in(self, principal: Principal) -> bool:
        """Whether nobody need be asked: the principal is a super user."""
        return str(principal) in self._super_users

    async def check(self, api: str, principal: Principal, caller: Sequence[tuple[str, str]]) -> None:
        """Returns if the principal may send a request of this API; `caller` is the metadata that names the principal.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED if it may not, or that of a controller that does not answer.
        """
        if self.lets_in(principal):
            return
        await call(self._controller.Authorize, AuthorizeRequest(api=api), deadline_ms=DEADLINE_MS, metadata=caller)
