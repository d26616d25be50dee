"""Who may call a service that has no entries of the log to look at: the super users, by their certificates.

A quorum node and a placer serve the cluster's own processes, and a raft request must depend on nothing that raft itself
brings about: neither on a controller, nor on entries that a voter with an empty log does not have. So their callers are
listed, as Kafka's controllers list each other in `super.users`; with an authorizer everybody else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorate.authorizer import CLUSTER, STANDARD_AUTHORIZER, DefaultRule, Requester, Ruling
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.nouns import Principal
from quorate.runtime import audit
from quorate.runtime.config import setting
from quorate.runtime.peers import host_of
from quorate.runtime.setting_types import choice, optional, principals
from quorate.runtime.transport import Transport
from quorate.runtime.transport_settings import TransportSettings

__all__ = ["Guard", "GuardedSettings", "guard_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedSettings(TransportSettings):
    """Who may call a service, in its Config as a base class."""

    authorizer: str | None = setting(
        "authorizer.class.name",
        optional(choice(STANDARD_AUTHORIZER)),
        "With one, callers need a right, or are among super.users; without one everybody may call who reaches it.",
        default=None,
    )
    super_users: frozenset[str] = setting(
        "super.users",
        principals(),
        "Who may do everything here, whatever the entries say: the cluster's own processes, and its operators.",
        default=frozenset(),
    )


class Guard:
    """Lets in the super users, by their certificates; tells each decision to the authorizer's log."""

    def __init__(self, principal: Callable[[Any], Principal], super_users: frozenset[str]) -> None:
        self._principal = principal
        self._super_users = super_users

    def check(self, method: str, context: Any) -> None:
        """Checks that the caller is among `super.users`, which do not change before the next restart.

        Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) if it is not.
        """
        who = self._principal(context)
        host = host_of(context.peer())
        is_allowed = str(who) in self._super_users
        ruling = Ruling(is_allowed, DefaultRule.SUPER_USER if is_allowed else DefaultRule.DEFAULT_DENY)
        audit.tell(method, Requester(principal=who, host=host), AclOperation.CLUSTER_ACTION, CLUSTER, ruling)
        if not is_allowed:
            why = f"{method} takes {who} among super.users of this service, and it is not there; it called from {host}"
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)


def guard_of(settings: GuardedSettings, transport: Transport) -> Guard | None:
    """Returns the guard that the settings ask for; None if everybody may call."""
    return Guard(transport.principal, settings.super_users) if settings.authorizer else None
