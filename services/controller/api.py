"""The description of each Kafka API of the controller: request, ACL operation, quota, deadline. Not its handler.

They are in the rows of `handlers/`, by subject, each beside its handler; `handlers.APIS` has them all. The gRPC service
is made from them (`servicer`), and so are the envelopes of Submit and AdminStream (`admin`), the checks of rights
(`authorizing`), the quotas, the deadlines and the lanes of the engine's queue. To add an API is to add its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message as ProtobufMessage

from quorate.controller.access.screening import Screen
from quorate.controller.engine.engine import QueueLimit
from quorate.controller.quotas.metered import Meter
from quorate.metadata.acls import AclOperation

__all__ = ["Api"]


def _for_no_request(_: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API of `kraft.service.Controller`. A handler of `handlers/` answers it, the quorum node, or the servicer."""

    name: str
    """The RPC's name, which is Kafka's name of the API where Kafka has it."""
    request: type[ProtobufMessage]
    right: AclOperation | None
    """The operation on the cluster that the API needs as a whole; without it CLUSTER_AUTHORIZATION_FAILED.

    None: its items are screened, or its command checks each token or topic, or its answer is public.
    """
    quorum_deadline_ms: int | None = None
    """The active controller sends the request to its own quorum node, the leader, with at most this deadline."""
    screen: Screen | None = None
    """Authorizes the items one by one, and refuses some of them."""
    meter: Meter | None = None
    """Counts the partition mutations, which a client's quota limits (KIP-599)."""
    lane: QueueLimit = QueueLimit.ADMIN
    """The queue limit under which it waits: the cluster's own requests keep their places when admins fill theirs."""
    is_forwarded: bool = True
    """Whether a standby forwards it to the active controller; otherwise each controller answers by itself."""
    needs_leader: bool = True
    """Whether only the active controller answers it. If not, a standby that can ask no active one answers by what it
    has applied, as each Kafka controller always does."""
    is_read: bool = False
    """Whether it changes nothing: another leader may be asked the same once more."""
    has_deadline: bool = False
    """Whether `timeout_ms` of the request is a deadline for the decision to begin, as in Kafka's ControllerApis."""
    has_pages: bool = False
    """Whether an envelope may ask for it in pages, all of the state at one offset."""
    needs_authorizer: bool = False
    """Whether it gets SECURITY_DISABLED where no authorizer is configured: the ACL APIs do."""
    alters: Callable[[Any], bool] = _for_no_request
    """Whether a request (Kafka's struct) asks for what takes ALTER on the cluster, whatever `right` is."""
    lists_all: Callable[[Any], bool] = _for_no_request
    """Whether a request lists all topics: those that the caller may not see are left out, without an audit entry."""

    def __post_init__(self) -> None:
        assert self.right is None or self.screen is None, self.name
        assert self.needs_leader or self.is_read, self.name
        assert self.quorum_deadline_ms is None or self.screen is None, f"the quorum node screens no items: {self.name}"
        assert self.meter is None or not self.is_read, f"a read creates and deletes no partitions: {self.name}"
        assert not self.has_pages or self.is_read, f"pages are of one state: {self.name}"
        assert not self.has_deadline or "timeout_ms" in self.request.DESCRIPTOR.fields_by_name, self.name
