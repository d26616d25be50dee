"""Which node a request says that its sender is, and the refusal of a sender whose certificate is another node's.

A right to act for the cluster (CLUSTER_ACTION, or super.users) lets its owner vote, fetch and send heartbeats as any
node. With `principal.node.id.mapping.rules` a node does so only under its own id. CVE-2018-1288 was of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.authorizer import Requester
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId, Principal
from quorate.runtime.access import audit
from quorate.runtime.access.guard import GuardedSettings
from quorate.runtime.connections.peers import host_of
from quorate.runtime.connections.transport import Transport
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import SettingType, optional
from quorate.tls.node_ids import NodeIds

__all__ = [
    "CLAIMS",
    "CLAIM_RULES",
    "CLAIM_RULES_HELP",
    "NodeClaims",
    "NodeSettings",
    "check_claim",
    "claim_problems",
    "claims_of",
    "node_ids_of",
    "node_rules",
    "warn_of_any",
]

log = logger(__name__)

CLAIM_RULES: Final = "principal.node.id.mapping.rules"
CLAIM_RULES_HELP: Final = (
    "From a caller's principal to its node id, or to * for every node; who is another node is refused. Empty: no check."
)
RULE: Final = "NodeIdMismatch"
"""The reason of a refusal in the audit log."""

Claimed = Callable[[Any], Iterable[NodeId]]


def _of_partitions(field: str) -> Claimed:
    def claimed(request: Any) -> Iterator[NodeId]:
        return (getattr(partition, field) for topic in request.topics for partition in topic.partitions)

    return claimed


def _of(field: str) -> Claimed:
    return lambda request: (getattr(request, field),)


def _fetched(request: Any) -> tuple[NodeId]:
    return (request.replica_state.replica_id,)


CLAIMS: Final[Mapping[str, Claimed]] = {
    "Vote": _of_partitions("replica_id"),
    "BeginQuorumEpoch": _of_partitions("leader_id"),
    "EndQuorumEpoch": _of_partitions("leader_id"),
    "Fetch": _fetched,
    "FetchStream": _fetched,
    "RelayFetchStream": _fetched,
    "ReportReaders": lambda request: request.replica_ids,
    "FetchSnapshot": _of("replica_id"),
    "RelayFetchSnapshot": _of("replica_id"),
    "UpdateRaftVoter": _of("voter_id"),
    "ControllerPresence": _of("voter_id"),
    "BrokerHeartbeat": _of("broker_id"),
    "BrokerHeartbeatStream": _of("broker_id"),
    "BrokerHeartbeats": lambda request: (each.broker_id for each in request.heartbeats),
    "KeepAlive": lambda request: request.broker_ids,
    "BrokerRegistration": _of("broker_id"),
    "ControllerRegistration": _of("controller_id"),
    "AlterPartition": _of("broker_id"),
    "AllocateProducerIds": _of("broker_id"),
    "AssignReplicasToDirs": _of("broker_id"),
    "ChangeBrokerState": _of("broker_id"),
}
"""The node that a request speaks for, by RPC, from its newest version as protobuf or as a struct.

Requests that name a node as their subject are not here, such as AddRaftVoter and UnregisterBroker: an operator sends
them about every node. ChangeBrokerState is: the heartbeat service sends it for all brokers, and may (`*`), and a broker
for itself.
"""

OF_THE_NODE: Final = "kraft.service.RaftClient"
"""The service whose requests name no node: only the controller of the same node may send them."""


def node_rules() -> SettingType[str | None]:
    """Setting type: `principal.node.id.mapping.rules`; the text is checked, and stays a text."""

    def parse(value: str) -> str:
        NodeIds(value)
        return value

    return optional(SettingType("RULE:pattern/replacement/[LU], with commas between them, as in KIP-371", parse))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings(GuardedSettings):
    """The rules by which a caller may speak for a node, in the Config of a service whose callers are nodes."""

    node_rules: str | None = setting(CLAIM_RULES, node_rules(), CLAIM_RULES_HELP, default=None)


def node_ids_of(rules: str | None) -> NodeIds | None:
    """Returns the parsed text of `principal.node.id.mapping.rules`; None if it is not set. Raises ValueError."""
    return None if rules is None else NodeIds(rules)


def claims_of(settings: NodeSettings, transport: Transport, *, node_id: NodeId | None = None) -> NodeClaims | None:
    """Returns the check of which node a request speaks for; None without `principal.node.id.mapping.rules`.

    `node_id` is the own id of a quorum node, whose RaftClient service only the controller of that node may call.
    """
    nodes = node_ids_of(settings.node_rules)
    return None if nodes is None else NodeClaims(nodes, transport.principal, node_id)


def claim_problems(rules: str | None, *, protocol: str | None) -> Iterator[str]:
    """Yields an error if there are rules, and `protocol` is PLAINTEXT: in the clear every caller is ANONYMOUS."""
    if rules is not None and protocol == "PLAINTEXT":
        yield f"{CLAIM_RULES} = {rules}: needs a listener with certificates; in the clear every caller is ANONYMOUS"


def warn_of_any(*, is_authorized: bool, rules: str | None) -> None:
    """Logs a warning if a service authorizes its callers and has no `principal.node.id.mapping.rules`.

    Each caller that may act for the cluster may then do so as any node.
    """
    if is_authorized and rules is None:
        log.warning("a caller that may act for the cluster may do so as any node", setting=CLAIM_RULES)


def check_claim(nodes: NodeIds, claimed: Iterable[NodeId], *, api: str, principal: Principal, host: str) -> None:
    """Checks that the principal may speak for all nodes of `claimed`; ids below 0 are nobody's, and are allowed.

    If not, it writes a denial with the first node that it may not speak for to the audit log, and raises
    ApiError(CLUSTER_AUTHORIZATION_FAILED).
    """
    other = next((node_id for node_id in claimed if not nodes.allows(principal, node_id)), None)
    if other is None:
        return
    audit.deny(api, Requester(principal=principal, host=host), RULE, claimed=other)
    own = nodes.of(principal)
    is_own = "no node" if own is None else f"node {own}"
    why = f"{api} is for node {other}, and {principal} is {is_own} by {CLAIM_RULES}; it called from {host}"
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why, {"node_id": str(other)})


class NodeClaims:
    """Checks for which node each request of a gRPC server speaks, by the certificate of its sender.

    `node_id` is the server's own, for the service RaftClient: its requests name no node, and are from this one's
    controller alone. None for a server that does not have the service.
    """

    def __init__(self, nodes: NodeIds, principal: Callable[[Any], Principal], node_id: NodeId | None) -> None:
        self._nodes = nodes
        self._principal = principal
        self._node_id = node_id

    def check_of(self, method: str) -> Callable[[Any, Any], None] | None:
        """Returns a function that checks a request with its context; None if the method's requests name no sender.

        `method` is `pkg.Service/Method`. The function raises ApiError(CLUSTER_AUTHORIZATION_FAILED), and audits that.
        """
        service, _, name = method.rpartition("/")
        own = (self._node_id,) if service == OF_THE_NODE and self._node_id is not None else None
        claimed = CLAIMS.get(name) if own is None else lambda _: own
        if claimed is None:
            return None

        def check(request: Any, context: Any) -> None:
            host = host_of(context.peer())
            check_claim(self._nodes, claimed(request), api=method, principal=self._principal(context), host=host)

        return check
