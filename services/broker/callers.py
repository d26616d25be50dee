"""The callers at the listeners, and their rights: Kafka's StandardAuthorizer on the entries that are applied here.

As in Kafka, an entry counts a little later here than at the controller that has taken it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from quorate.authorizer import CLUSTER_NAME, AclResource, Requester, StandardAuthorizer, host_address
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, Acls, ResourceType
from quorate.network.listening import ConnectedClient
from quorate.nouns import Principal
from quorate.protocol import Request
from quorate.runtime.access import audit
from quorate.runtime.access.audit import named
from quorate.runtime.requests.statuses import shortened

__all__ = ["Caller", "Callers", "Connection"]

NAME_SHOWN: Final = 60
"""Letters of a name that somebody has sent: an error repeats it for each partition."""
REFUSED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Connection(NamedTuple):
    """A client's open connection, by the listener and the client's address and port: no two have all three alike."""

    listener: str
    host: str
    port: int


class Caller:
    """The sender of one request: the listener at which it has come, and its rights by the authorizer and the ACLs.

    `connections` has the connection of the request, since Kafka answers the requests of a connection one after the
    other; it is empty for an RPC.
    """

    def __init__(
        self,
        listener: str,
        who: Requester,
        request: str,
        authorizer: StandardAuthorizer | None,
        acls: Callable[[], Acls],
        connections: frozenset[Connection] = frozenset(),
    ) -> None:
        self.listener = listener
        self.connections = connections
        self._who = who
        self._decisions = audit.Decisions(request, who)
        self._authorizer = authorizer
        self._acls = acls
        self._decided: dict[tuple[AclOperation, ResourceType, str], bool] = {}

    @property
    def may_do_all(self) -> bool:
        """Whether this broker has no authorizer."""
        return self._authorizer is None

    def may(self, operation: AclOperation, kind: ResourceType, name: str, *, is_audited: bool = True) -> bool:
        """Returns whether the caller may do the operation on the resource, and writes that to the audit log.

        The answer is kept for the rest of the request, whatever ACLs change. With `is_audited` False a denial is
        neither written nor kept: nothing is refused by it. Without an authorizer it is True, and nothing is written.
        """
        if self._authorizer is None:
            return True
        asked = operation, kind, name
        decided = self._decided.get(asked)
        if decided is None:
            resource = AclResource(kind, name)
            ruling = self._authorizer.ruling(self._acls(), self._who, operation, resource)
            decided = ruling.allowed
            if is_audited or decided:
                self._decided[asked] = decided
                self._decisions.tell(operation, resource, ruling)
        return decided

    def check(self, operation: AclOperation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raises ApiError unless `may` returns True: TOPIC_AUTHORIZATION_FAILED, or that of the resource's type."""
        if not self.may(operation, kind, name):
            what = "the cluster" if kind is ResourceType.CLUSTER else f"{named(kind)} {shortened(name, NAME_SHOWN)!r}"
            why = f"{operation.name} on {what} is required; {self._who.principal} does not have it"
            raise ApiError(REFUSED[kind], why)

    def may_on_cluster(self, operation: AclOperation, *, is_audited: bool = True) -> bool:
        """Returns what `may` does for the operation on the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, is_audited=is_audited)

    def may_on_any(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Returns whether the caller may do the operation on any resource of the type (KIP-679). It is not audited."""
        return self._authorizer is None or self._authorizer.allows_on_any(self._acls(), self._who, operation, kind)

    def sees(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Returns what `may` does, for a list that leaves out what the caller may not see: a denial is not audited."""
        return self.may(operation, kind, name, is_audited=False)

    def would_allow(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Returns what `may` would, and audits nothing: for an answer that lists the caller's operations (KIP-430)."""
        if self._authorizer is None:
            return True
        return self._authorizer.allows(self._acls(), self._who, operation, AclResource(kind, name))


class Callers:
    """Makes the caller of each request. Without an authorizer everybody may do everything."""

    def __init__(self, authorizer: StandardAuthorizer | None, acls: Callable[[], Acls]) -> None:
        """`acls` returns the entries that are applied now."""
        self._authorizer = authorizer
        self._acls = acls

    def of(self, request: Request, client: ConnectedClient) -> Caller:
        """Returns the caller of a request that has come over this connection."""
        who = Requester(principal=request.principal, host=host_address(client.host))
        connection = Connection(client.listener, client.host, client.port)
        return Caller(
            client.listener, who, request.api.name, self._authorizer, self._acls, connections=frozenset((connection,))
        )

    def of_call(self, api: str, principal: Principal, host: str) -> Caller:
        """Returns the caller of the RPC `api`, from the IP address `host`. It has come at no listener: ""."""
        return Caller("", Requester(principal=principal, host=host_address(host)), api, self._authorizer, self._acls)
