"""The right to call a service that replays the log: by the entries in it, as its replica has applied them.

The heartbeat service and an observer ask nobody for that: they decide as a controller does, by the same authorizer, at
the offset that they have applied. While that is behind, an entry counts a little later here than at a controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from quorate.authorizer import (
    CLUSTER,
    AclResource,
    DefaultRule,
    Requester,
    Ruling,
    StandardAuthorizer,
    host_address,
)
from quorate.controller.access.rights import Allows, allows_all
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import Principal
from quorate.runtime.access import audit
from quorate.runtime.access.process_rights import OBSERVER, PROCESS_RULES, ProcessRights, process_rights_of
from quorate.runtime.connections.peers import host_of
from quorate.runtime.connections.transport import Transport
from quorate.runtime.following.replica import Replica
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import boolean

__all__ = [
    "AuthorizerSettings",
    "EntryGuard",
    "EntrySettings",
    "authorizer_of",
    "entry_guard_of",
    "everyone_setting",
    "rights_of",
]


class AuthorizerSettings(Protocol):
    """The settings of an authorizer, as a Config has them."""

    @property
    def authorizer(self) -> str | None: ...

    @property
    def super_users(self) -> frozenset[str]: ...

    @property
    def allow_everyone_if_no_acl_found(self) -> bool: ...


class EntrySettings(AuthorizerSettings, Protocol):
    """The settings of a service that authorizes its callers by ACL entries, as its Config has them."""

    @property
    def process_rules(self) -> str | None: ...


def everyone_setting() -> bool:
    """Declares the setting `allow.everyone.if.no.acl.found` as a field of a service's Config; false by default."""
    return setting(
        "allow.everyone.if.no.acl.found",
        boolean(),
        "Whether everybody may do everything with a resource that no entry is about; the same at every service.",
        default=False,
    )


def authorizer_of(settings: AuthorizerSettings) -> StandardAuthorizer | None:
    """Returns the configured authorizer; None if none is set, and then every caller may do everything."""
    if settings.authorizer is None:
        return None
    return StandardAuthorizer(
        super_users=settings.super_users, allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found
    )


class EntryGuard:
    """Decides who may call a method, by the ACL entries that a replica of the log has applied; audits each decision.

    `operations` has the operation on the cluster that each method (`pkg.Service/Method`) requires: CLUSTER_ACTION if
    the method is not in it; with None the method is open, or its handler asks `allows` for each item. A process of the
    cluster needs no entry for the methods that it calls.
    """

    def __init__(
        self,
        principal: Callable[[Any], Principal],
        authorizer: StandardAuthorizer,
        replica: Replica,
        operations: Mapping[str, AclOperation | None],
        processes: ProcessRights | None = None,
    ) -> None:
        self._principal = principal
        self._authorizer = authorizer
        self._replica = replica
        self._operations = operations
        self._processes = processes

    def check(self, method: str, context: Any) -> Callable[[], None] | None:
        """Checks that the caller may call the method; returns a function that asks it again, by later entries.

        Returns None if the method is open, or if the caller is a process of the cluster that calls it. Raises what
        `require` raises, and so does the function.
        """
        operation = self._operations.get(method, AclOperation.CLUSTER_ACTION)
        if operation is None:
            return None
        who = self._requester(context)
        if self._processes is not None and self._processes.may_call(who.principal, method):
            audit.allow(method, who, PROCESS_RULES)
            return None
        recheck = partial(self._require, operation, method, who)
        recheck()
        return recheck

    def require(self, operation: AclOperation, request: str, context: Any) -> None:
        """Checks that the caller may do the operation on the cluster, and audits the decision.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, or the retriable COORDINATOR_LOAD_IN_PROGRESS while the replica
        has not caught up, as Kafka's authorizer before its load; super users need not wait for that.
        """
        self._require(operation, request, self._requester(context))

    def allows(self, request: str, context: Any, *, is_audited: bool) -> Allows:
        """Returns a function that says whether the caller may do an operation on a resource: (operation, type, name).

        Without `is_audited` it audits nothing, because its answer alone refuses nothing. It raises
        ApiError(COORDINATOR_LOAD_IN_PROGRESS) while the replica has not caught up. A process that calls `request` of
        the observer may DESCRIBE every resource.
        """
        who = self._requester(context)
        is_reader = self._processes is not None and self._processes.may_call(who.principal, f"{OBSERVER}/{request}")
        decisions = audit.Decisions(request, who)

        def may(operation: AclOperation, kind: ResourceType, name: str) -> bool:
            if is_reader and operation is AclOperation.DESCRIBE:
                return True
            resource = AclResource(kind, name)
            ruling = self._ruling(who, operation, resource)
            if is_audited:
                decisions.tell(operation, resource, ruling)
            return ruling.allowed

        return may

    def _require(self, operation: AclOperation, request: str, who: Requester) -> None:
        ruling = self._ruling(who, operation, CLUSTER)
        audit.tell(request, who, operation, CLUSTER, ruling)
        if not ruling.allowed:
            why = f"{request} requires {operation.name} on the cluster; {who.principal} at {who.host} does not have it"
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)

    def _requester(self, context: Any) -> Requester:
        return Requester(principal=self._principal(context), host=host_address(host_of(context.peer())))

    def _ruling(self, who: Requester, operation: AclOperation, resource: AclResource) -> Ruling:
        ruling = self._authorizer.ruling(self._replica.state.acls, who, operation, resource)
        if not self._replica.has_caught_up and ruling.because is not DefaultRule.SUPER_USER:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this service has not loaded its state yet")
        return ruling


def entry_guard_of(
    settings: EntrySettings,
    transport: Transport,
    replica: Replica,
    operations: Mapping[str, AclOperation | None],
) -> EntryGuard | None:
    """Returns the guard that the settings ask for; None if no authorizer is set, and everybody may call."""
    authorizer = authorizer_of(settings)
    if authorizer is None:
        return None
    processes = process_rights_of(settings.process_rules)
    return EntryGuard(transport.principal, authorizer, replica, operations, processes)


def rights_of(guard: EntryGuard | None, request: str, context: Any, *, is_audited: bool) -> Allows:
    """Returns a caller's rights, as `EntryGuard.allows` does; without a guard everything is allowed."""
    return allows_all if guard is None else guard.allows(request, context, is_audited=is_audited)
