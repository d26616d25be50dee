"""Authorization of requests: each API needs an operation on a resource, which its row names (`api`).

A request that needs a right on the cluster is refused as a whole. A request on several resources is checked item by
item (`quorate.controller.access.screening`). Only committed ACLs count, so an uncommitted permission grants nothing,
and a refusal is sent at once. Every decision goes to the `audit` log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from quorate.authorizer import (
    CLUSTER_NAME,
    AclResource,
    DefaultRule,
    Requester,
    Ruling,
    StandardAuthorizer,
    host_address,
)
from quorate.controller.access.screening import CallerRights, ScreenedRequest
from quorate.controller.engine.committed import Committed
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import ANONYMOUS, NodeId, Principal
from quorate.runtime.access import audit
from quorate.runtime.access.claims import CLAIMS, check_claim
from quorate.runtime.access.passing_on import FORWARDER_PRINCIPAL, GATEWAY_PRINCIPAL, HOP, said_in
from quorate.runtime.access.process_rights import CONTROLLER, PROCESS_RULES, ProcessRights
from quorate.runtime.access.token_requests import check_token_request
from quorate.runtime.calls.call_login import login_of_call
from quorate.runtime.connections.peers import host_of
from quorate.runtime.event_loop.turns import in_turns
from quorate.tls.node_ids import NodeIds
from services.controller.api import Api
from services.controller.call import Call, Caller
from services.controller.hops import NOT_FORWARDABLE, Hop, PassingOn, hops
from services.controller.pending import LEADER_EPOCH, OFFSET

AT_OTHER_SERVICES: Final = frozenset(
    {
        "BeginQuorumEpoch",
        "BrokerHeartbeat",
        "EndQuorumEpoch",
        "Envelope",
        "Fetch",
        "FetchSnapshot",
        "UpdateRaftVoter",
        "Vote",
    }
)
"""The APIs of Kafka's controller that others answer here: they need CLUSTER_ACTION, for which a gateway asks.

The gateway itself answers an Envelope."""

PASSED_ON: Final = "Envelope"
"""Kafka's request name for a forwarded request, for the audit log. KIP-590."""


class Authorizing:
    """Authorizes requests by the committed ACLs of this controller; without an authorizer everything is allowed.

    Each decision of an authorizer is written to the audit log.

    Every check also raises ApiError(COORDINATOR_LOAD_IN_PROGRESS), which is retriable, before the ACLs are loaded, but
    for super users.
    """

    def __init__(
        self,
        engine: Engine,
        authorizer: StandardAuthorizer | None,
        principal: Callable[[Any], Principal] = lambda context: ANONYMOUS,
        nodes: NodeIds | None = None,
        processes: ProcessRights | None = None,
    ) -> None:
        """`principal` says who makes a call, by its certificate; `nodes` says which node it is, None for any.

        `processes` says which process of the cluster it is: one needs no entry for what it calls.
        """
        self._nodes = nodes
        self._processes = processes
        self._passing_on = PassingOn(
            processes=processes, nodes=nodes, is_super=self._is_super, is_brokers=self._is_brokers
        )
        self._principal = principal
        self._engine = engine
        self._authorizer = authorizer
        self._acls = Committed(engine, engine.state.acls)

    def caller(self, context: Any, api: str) -> Caller:
        """Returns the caller of an RPC; without a certificate its principal is ANONYMOUS. `api` is the API's name.

        For a call that was passed on it is the original caller, if each that passed it on (a controller, a gateway, the
        broker that sent an Envelope to a gateway) has CLUSTER_ACTION, as with Kafka's envelopes (KIP-590), and may pass
        on this API. Raises ApiError: CLUSTER_AUTHORIZATION_FAILED if not, PRINCIPAL_DESERIALIZATION_FAILURE.
        """
        said, login = said_in(context.invocation_metadata()), login_of_call()
        is_token = login is not None and login.is_token
        here = Caller(self._principal(context), host_address(host_of(context.peer())), said.client_id, is_token)
        if not (said.is_forwarded or said.is_by_gateway):
            return here
        hosts = list(map(host_address, said.hosts))
        gateway = said.principal(GATEWAY_PRINCIPAL) if said.is_forwarded else ANONYMOUS
        forwarder = said.principal(FORWARDER_PRINCIPAL)
        passed = tuple(hops(here.requester, hosts, forwarder, gateway, is_forwarded=said.is_forwarded))
        for hop in passed:
            self._check_hop(hop, api)
        own = tuple([hop.who for hop in passed if not self._passing_on.is_for_all(hop)])
        host, is_token = hosts[0] if hosts else here.host, said.is_forwarded and said.is_token
        return Caller(said.principal(), host, said.client_id, is_token, own)

    def _check_hop(self, hop: Hop, api: str) -> None:
        """Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) unless the hop may pass on requests of others for this API."""
        who = hop.who
        if not (self._passing_on.is_process(hop) or self._may_act(Caller(who.principal, who.host), PASSED_ON)):
            refusal = _refusal(who, AclOperation.CLUSTER_ACTION, "a request that was passed on")
        elif not self._passing_on.allows(hop, api):
            audit.deny(PASSED_ON, who, NOT_FORWARDABLE, api=api)
            why = f"{api} is not forwardable (KIP-590): {who.principal} may not pass it on for another from {who.host}"
            refusal = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)
        else:
            return
        refusal.metadata[HOP] = who.host
        raise self._of_now(refusal)

    def _may_act(self, caller: Caller, request: str) -> bool:
        """Whether the caller has CLUSTER_ACTION."""
        if self._authorizer is None:
            return True
        return self.rights(caller, request)(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def _is_super(self, principal: Principal) -> bool:
        return self._authorizer is None or str(principal) in self._authorizer.super_users

    def _is_brokers(self, node_id: NodeId) -> bool:
        state = self._engine.state
        return node_id in state.brokers and node_id not in state.controllers

    def check(self, api: Api, caller: Caller) -> None:
        """Checks the API's right on the cluster. Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) without it.

        The ACL APIs raise ApiError(SECURITY_DISABLED) where no authorizer is configured, and those about delegation
        tokens as `check_token_request`.
        """
        try:
            check_token_request(api.name, is_token=caller.is_token)
        except ApiError as refusal:
            raise self._of_now(refusal) from None
        if api.right is not None and not self._is_allowed(caller, api.right, api.name):
            raise self._of_now(_refusal(caller.requester, api.right, api.name))
        if api.needs_authorizer and self._authorizer is None:
            why = "authorizer.class.name is not set on this controller: there are no ACLs"
            raise self._of_now(ApiError(ErrorCode.SECURITY_DISABLED, why))

    def check_early(self, api: Api, caller: Caller) -> None:
        """Checks the API's right on the cluster before a request is decoded; `check` is called again for the request.

        So an allowed caller is not in the audit log yet. Raises ApiError as `check`.
        """
        if api.right is None or self._authorizer is None or self._is_process(caller, api.name):
            return
        if not self._ruling(caller, api.right, AclResource(ResourceType.CLUSTER, CLUSTER_NAME)).allowed:
            self.check(api, caller)

    def _is_allowed(self, caller: Caller, right: AclOperation, api: str) -> bool:
        """Whether the caller may do an operation on the cluster, or is a process that calls this API."""
        if self._is_process(caller, api):
            audit.allow(api, caller.requester, PROCESS_RULES)
            return True
        return self.rights(caller, api)(right, ResourceType.CLUSTER, CLUSTER_NAME)

    def _is_process(self, caller: Caller, api: str) -> bool:
        return self._processes is not None and self._processes.may_call(caller.principal, f"{CONTROLLER}/{api}")

    def check_node(self, api: Api, asked: Any, caller: Caller) -> None:
        """Checks that the caller is the node for which it speaks, and who passed its request on, too.

        Raises ApiError(CLUSTER_AUTHORIZATION_FAILED). `asked` is Kafka's request, or the message of an API that Kafka
        does not have.
        """
        claimed = CLAIMS.get(api.name)
        if self._nodes is None or claimed is None:
            return
        try:
            for who in (*caller.passed_on_by, caller.requester):
                check_claim(self._nodes, claimed(asked), api=api.name, principal=who.principal, host=who.host)
        except ApiError as refusal:
            raise self._of_now(refusal) from None

    def check_elsewhere(self, api: str, caller: Caller) -> None:
        """Checks CLUSTER_ACTION for a request that another service answers, of the API named `api`.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, or INVALID_REQUEST for an API not among `AT_OTHER_SERVICES`.
        """
        if api not in AT_OTHER_SERVICES:
            why = f"api is {api!r}; it is one of {', '.join(sorted(AT_OTHER_SERVICES))}"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "api"})
        if not self._may_act(caller, api):
            raise self._of_now(_refusal(caller.requester, AclOperation.CLUSTER_ACTION, api))

    async def admit(self, call: Call) -> Call:
        """Returns the call with only the items that the caller may use; `deciding` refuses the others in its answer.

        Many items are checked in turns of the loop, each by the ACLs that are committed then.
        Raises ApiError(CLUSTER_AUTHORIZATION_FAILED) if the request as a whole is not allowed.
        """
        call, screening = self._admitted(call)
        if screening is None:
            return call
        left = await in_turns(screening)
        return msgspec.structs.replace(call, asked=left.asked, with_refusals=left.finish)

    def _admitted(self, call: Call) -> tuple[Call, Steps[ScreenedRequest] | None]:
        """Returns the call with the rights of its caller, and the steps in which its items are checked, if they are."""
        caller = call.caller
        self.check(call.api, caller)
        self.check_node(call.api, call.asked, caller)
        if self._authorizer is None:
            return call, None
        rights = self.rights(caller, call.api.name)
        alters = call.api.alters(call.asked)
        if alters and not rights(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise self._of_now(_refusal(caller.requester, AclOperation.ALTER, f"{call.api.name} of controllers"))
        is_audited = not call.api.lists_all(call.asked)
        call = msgspec.structs.replace(
            call,
            allows=partial(rights, is_audited=is_audited),
            would_allow=lambda operation, kind, name: self._ruling(caller, operation, AclResource(kind, name)).allowed,
        )
        screen = call.api.screen
        return call, None if screen is None else screen(rights, call.asked, self._engine.state)

    def _of_now(self, refusal: ApiError) -> ApiError:
        """Adds leader epoch and the offset of the committed ACLs to a refusal's metadata, and returns it.

        On a standby it adds nothing: only what a quorum node or a gateway serves is checked there.
        """
        if self._engine.epoch is not None:
            refusal.metadata |= {LEADER_EPOCH: str(self._engine.epoch), OFFSET: str(self._acls.offset)}
        return refusal

    def rights(self, caller: Caller, request: str) -> CallerRights:
        """Returns the function that says whether a caller may do an operation on a resource, and tells the audit log.

        `request` is the request's name in the audit log.
        """
        decisions = audit.Decisions(request, caller.requester)

        def may(operation: AclOperation, kind: ResourceType, name: str, *, is_audited: bool = True) -> bool:
            if self._authorizer is None:
                return True
            resource = AclResource(kind, name)
            ruling = self._ruling(caller, operation, resource)
            if is_audited or ruling.allowed:
                decisions.tell(operation, resource, ruling)
            return ruling.allowed

        return may

    def _ruling(self, caller: Caller, operation: AclOperation, resource: AclResource) -> Ruling:
        assert self._authorizer is not None
        ruling = self._authorizer.ruling(self._acls.now(), caller.requester, operation, resource)
        if not self._engine.is_loaded and ruling.because is not DefaultRule.SUPER_USER:
            # An entry may be among the records that are still to come. As Kafka's AuthorizerNotReadyException this is
            # no denial: a broker or a voter of Kafka ends when it is denied CLUSTER_ACTION.
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this controller has not loaded its state yet")
        return ruling


def _refusal(who: Requester, operation: AclOperation, what: str) -> ApiError:
    return ApiError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"{what} requires {operation.name} on the cluster; {who.principal} at {who.host} does not have it",
    )
