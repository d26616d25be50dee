"""The right to call a service that has no ACLs of the log to look at, by the certificate of the caller.

A quorum node and a placer serve the cluster's own processes, and a raft request must depend on nothing that raft itself
brings about: neither on a controller, nor on entries that a voter with an empty log does not have. So each of those
processes may call what its code calls (`process_rights`), super users everything, and with an authorizer nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorate.authorizer import CLUSTER, STANDARD_AUTHORIZER, DefaultRule, Requester, Ruling
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation
from quorate.nouns import Principal
from quorate.runtime.access import audit
from quorate.runtime.access.process_rights import PROCESS_RULES, ProcessRights, process_rights_of, process_rules_setting
from quorate.runtime.calls.transport_settings import TransportSettings
from quorate.runtime.connections.peers import host_of
from quorate.runtime.connections.transport import Transport
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import choice, optional, principals

__all__ = ["Guard", "GuardedSettings", "guard_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedSettings(TransportSettings):
    """The settings by which a caller may call a service, in its Config as a base class."""

    authorizer: str | None = setting(
        "authorizer.class.name",
        optional(choice(STANDARD_AUTHORIZER)),
        "With one, callers need a right, or are among super.users; without one everybody may call who reaches it.",
        default=None,
    )
    super_users: frozenset[str] = setting(
        "super.users",
        principals(),
        "Who may do everything here, whatever the entries say: the cluster's operators.",
        default=frozenset(),
    )
    process_rules: str | None = process_rules_setting()


class Guard:
    """Lets in super users, and each process for what it calls; tells each decision to the authorizer's log."""

    def __init__(
        self,
        principal: Callable[[Any], Principal],
        super_users: frozenset[str],
        processes: ProcessRights | None = None,
    ) -> None:
        self._principal = principal
        self._super_users = super_users
        self._processes = processes

    def check(self, method: str, context: Any) -> None:
        """Checks that the caller may call the method, by settings that do not change before the next restart.

        Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) if it may not.
        """
        who = Requester(principal=self._principal(context), host=host_of(context.peer()))
        if self._processes is not None and self._processes.may_call(who.principal, method):
            audit.allow(method, who, PROCESS_RULES)
            return
        is_allowed = str(who.principal) in self._super_users
        ruling = Ruling(is_allowed, DefaultRule.SUPER_USER if is_allowed else DefaultRule.DEFAULT_DENY)
        audit.tell(method, who, AclOperation.CLUSTER_ACTION, CLUSTER, ruling)
        if not is_allowed:
            why = f"{method} is for super.users, and for the processes of {PROCESS_RULES} that call it; {who.principal}"
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{why} is none of them; it called from {who.host}")


def guard_of(settings: GuardedSettings, transport: Transport) -> Guard | None:
    """Returns the guard that the settings ask for; None if no authorizer is set, and everybody may call."""
    if not settings.authorizer:
        return None
    return Guard(transport.principal, settings.super_users, process_rights_of(settings.process_rules))
