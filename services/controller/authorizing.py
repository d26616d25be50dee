"""Who asks, and whether they may: which API needs which operation on which resource, as Kafka's ControllerApis checks.

What is asked of the cluster as a whole is refused as a whole. What is asked of many resources goes to `screening`.
Rights are what is committed when it is asked for them: a permission that may yet be undone opens nothing, and a refusal
is told at once. Every decision goes to the `audit` log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from quorate.authorizer import CLUSTER_NAME, Requester, Resource, Rule, Ruling, StandardAuthorizer, host_address
from quorate.controller.committed import Committed
from quorate.controller.decision import Proposal
from quorate.controller.engine import Answer, Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import Operation, ResourceType
from quorate.nouns import ANONYMOUS, Principal
from services.controller import audit
from services.controller.call import Call
from services.controller.driver import LEADER_EPOCH, OFFSET
from services.controller.forwarding import CLIENT_HOST, CLIENT_ID, is_forwarded, peer_address
from services.controller.screening import SCREENS, Rights

ON_THE_CLUSTER: Final[Mapping[str, Operation]] = {
    "AddRaftVoter": Operation.ALTER,
    "AllocateProducerIds": Operation.CLUSTER_ACTION,
    "AlterClientQuotas": Operation.ALTER_CONFIGS,
    "AlterPartition": Operation.CLUSTER_ACTION,
    "AlterPartitionReassignments": Operation.ALTER,
    "AlterQuorum": Operation.ALTER,
    "AlterUserScramCredentials": Operation.ALTER,
    "AssignReplicasToDirs": Operation.CLUSTER_ACTION,
    "BrokerRegistration": Operation.CLUSTER_ACTION,
    "ChangeBrokerState": Operation.CLUSTER_ACTION,
    "ControllerRegistration": Operation.CLUSTER_ACTION,
    "CreateAcls": Operation.ALTER,
    "DeleteAcls": Operation.ALTER,
    "DescribeAcls": Operation.DESCRIBE,
    "DescribeClientQuotas": Operation.DESCRIBE_CONFIGS,
    "DescribeQuorum": Operation.DESCRIBE,
    "DescribeUserScramCredentials": Operation.DESCRIBE,
    "ElectLeaders": Operation.ALTER,
    "ListPartitionReassignments": Operation.DESCRIBE,
    "RemoveRaftVoter": Operation.ALTER,
    "TransferLeadership": Operation.ALTER,
    "UnregisterBroker": Operation.ALTER,
    "UnregisterController": Operation.ALTER,
    "UpdateFeatures": Operation.ALTER,
}
"""What an RPC needs on the cluster; without it CLUSTER_AUTHORIZATION_FAILED."""

FREE: Final = frozenset(
    {
        "CreateDelegationToken",
        "DescribeCluster",
        "DescribeDelegationToken",
        "DescribeTopicPartitions",
        "ExpireDelegationToken",
        "ListErrorReasons",
        "RenewDelegationToken",
    }
)
"""What anybody may ask: their commands look at each token or topic through `Call.allows`, or there is no secret."""

ABOUT_ACLS: Final = frozenset({"CreateAcls", "DeleteAcls", "DescribeAcls"})
PASSED_ON: Final = "Envelope"
"""Kafka's name of a request that another node has passed on, for the audit log. KIP-590."""
CONTROLLERS: Final = 2
"""Endpoint type in DescribeCluster: where controllers listen is for administrators. KIP-919."""


class Caller(NamedTuple):
    """Who asks, and from where."""

    principal: Principal
    host: str
    client_id: str = ""
    """What it calls itself; nobody has looked whether it is that."""


class Authorizing:
    """The rights of callers, by the entries of this controller's state that are committed."""

    def __init__(self, engine: Engine, authorizer: StandardAuthorizer | None) -> None:
        self._engine = engine
        self._authorizer = authorizer
        self._acls = Committed(engine, engine.state.acls)

    def caller(self, context: Any) -> Caller:
        """Who asks. On a connection without authentication everybody is ANONYMOUS.

        A controller that passes a call on says where it came from, and is believed if it may act for the cluster:
        so it is with Kafka's envelopes (KIP-590). Raises ApiError(CLUSTER_AUTHORIZATION_FAILED).
        """
        metadata = dict(context.invocation_metadata() or ())
        client_id = str(metadata.get(CLIENT_ID, ""))
        here = Caller(ANONYMOUS, host_address(peer_address(context)), client_id)
        if not is_forwarded(context):
            return here
        if not self.rights(here, PASSED_ON)(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise self._of_now(_refusal(here, Operation.CLUSTER_ACTION, "a request that was passed on"))
        return Caller(ANONYMOUS, host_address(str(metadata.get(CLIENT_HOST, here.host))), client_id)

    def check(self, rpc: str, caller: Caller) -> None:
        """Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, or SECURITY_DISABLED where nothing is ever looked at."""
        operation = ON_THE_CLUSTER.get(rpc)
        if operation is not None and not self.rights(caller, rpc)(operation, ResourceType.CLUSTER, CLUSTER_NAME):
            raise self._of_now(_refusal(caller, operation, rpc))
        if rpc in ABOUT_ACLS and self._authorizer is None:
            why = "authorizer.class.name is not set on this controller: there are no entries"
            raise self._of_now(ApiError(ErrorCode.SECURITY_DISABLED, why))

    async def serve(self, call: Call, handle: Callable[[Call], Awaitable[Answer]]) -> Answer:
        """The answer of `handle` to as much as the caller may ask for, and refusals for the rest. Raises ApiError."""
        caller = Caller(call.principal, call.host)
        self.check(call.rpc, caller)
        if self._authorizer is None:
            return await handle(call)
        rights = self.rights(caller, call.rpc)
        if _asks_for_controllers(call) and not rights(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise self._of_now(_refusal(caller, Operation.ALTER, "DescribeCluster of controllers"))
        is_told = not _asks_for_all(call)
        call = dataclasses.replace(
            call,
            allows=lambda _, operation, kind, name: rights(operation, kind, name, is_told=is_told),
            would_allow=lambda _, operation, kind, name: self._ruling(caller, operation, Resource(kind, name)).allowed,
        )
        screen = SCREENS.get(call.rpc)
        if screen is None:
            return await handle(call)
        screened = screen(rights, call.asked, self._engine.state)
        answer = await handle(dataclasses.replace(call, asked=screened.asked))
        return dataclasses.replace(answer, response=_finished(answer.response, screened.finish))

    def _of_now(self, refusal: ApiError) -> ApiError:
        """It tells of which state it speaks, as a command's does: of what is committed, which is all that it rests on.

        On standby nothing is told: there only AlterQuorum is refused, which is the quorum's affair.
        """
        if self._engine.epoch is not None:
            refusal.metadata |= {LEADER_EPOCH: str(self._engine.epoch), OFFSET: str(self._acls.offset)}
        return refusal

    def rights(self, caller: Caller, request: str) -> Rights:
        """What a caller may do when it is asked for; `request` is what it asks, for the audit log."""

        def may(operation: Operation, kind: ResourceType, name: str, *, is_told: bool = True) -> bool:
            if self._authorizer is None:
                return True
            resource = Resource(kind, name)
            ruling = self._ruling(caller, operation, resource)
            if is_told or ruling.allowed:
                audit.tell(request, _requester(caller), operation, resource, ruling)
            return ruling.allowed

        return may

    def _ruling(self, caller: Caller, operation: Operation, resource: Resource) -> Ruling:
        assert self._authorizer is not None
        ruling = self._authorizer.ruling(self._acls.now(), _requester(caller), operation, resource)
        if self._engine.next_offset == 0 and ruling.because is not Rule.SUPER_USER:
            # No entry has come yet, or, of a snapshot, not all: Kafka's authorizer lets nobody in then either.
            return Ruling(False, Rule.DEFAULT_DENY)
        return ruling


def _requester(caller: Caller) -> Requester:
    return Requester(principal=caller.principal, host=caller.host)


def _refusal(caller: Caller, operation: Operation, what: str) -> ApiError:
    return ApiError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"{what} takes {operation.name} on the cluster, which {caller.principal} has not from {caller.host}",
    )


def _asks_for_controllers(call: Call) -> bool:
    return call.rpc == "DescribeCluster" and call.asked.endpoint_type == CONTROLLERS


def _asks_for_all(call: Call) -> bool:
    """Is it for a list of what may be seen? What is left out of one was not asked for, and nobody was denied it."""
    return call.rpc == "DescribeTopicPartitions" and not call.asked.topics


def _finished(response: Any, finish: Callable[[Any], Any]) -> Any:
    if isinstance(response, Proposal):
        return dataclasses.replace(response, response=finish(response.response))
    return finish(response)
