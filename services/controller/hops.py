"""Those that passed a call on before it came here, and what they may pass on. KIP-590.

A standby and a gateway pass on every call, in the name of its first caller. A broker passes on what its clients may ask
for through it, in an Envelope, and nothing else: else it would name another broker in the metadata of a call, and act
as that one, by CLUSTER_ACTION alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.authorizer import Requester
from quorate.nouns import ANONYMOUS, NodeId, Principal
from quorate.runtime.access.passing_on import FORWARDABLE
from quorate.runtime.access.process_rights import ProcessRights
from quorate.tls.node_ids import ANY_NODE, NodeIds

__all__ = ["NOT_FORWARDABLE", "Hop", "PassingOn", "hops"]

NOT_FORWARDABLE: Final = "NotForwardable"
"""The reason of a refusal in the audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One that passed a call on: who it is, and whether it did so in an Envelope, as a broker does."""

    who: Requester
    is_envelope: bool = False


def hops(
    here: Requester, addresses: Sequence[str], forwarder: Principal, gateway: Principal, *, is_forwarded: bool
) -> Iterator[Hop]:
    """Yields those that passed a call on before it came here, the last one first.

    `here` is the sender of the call. `addresses` are IP addresses: the first caller's, then those of all that passed it
    on before `here`. If a standby has forwarded the call (`is_forwarded`), the last one is that of `gateway`. Those
    between are brokers' with an Envelope: `forwarder` is the principal of the first of them, the others are ANONYMOUS.
    """
    yield Hop(who=here)
    for number, host in reversed(list(enumerate(addresses))[1:]):
        if is_forwarded and number == len(addresses) - 1:
            yield Hop(who=Requester(principal=gateway, host=host))
        else:
            named = forwarder if number == 1 else ANONYMOUS
            yield Hop(who=Requester(principal=named, host=host), is_envelope=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassingOn:
    """Decides which calls a hop may pass on: by the process rules if there are any, else by whether it is trusted.

    Trusted is a super user, which with rules for node ids is no broker's node; or who is every node by those rules. In
    the clear nobody has a name, and only the address tells a standby from a broker: there CLUSTER_ACTION is enough.
    """

    processes: ProcessRights | None
    nodes: NodeIds | None
    is_super: Callable[[Principal], bool]
    is_brokers: Callable[[NodeId], bool]
    """Whether a node is a broker and no controller."""

    def is_process(self, hop: Hop) -> bool:
        """Whether the process rules let it pass calls on in this way, so that it needs no ACL."""
        if self.processes is None:
            return False
        who = hop.who.principal
        return self.processes.may_pass_on(who) or (hop.is_envelope and self.processes.may_send_envelopes(who))

    def allows(self, hop: Hop, api: str) -> bool:
        """Whether the hop may pass on a call of this API in the name of another."""
        return api in FORWARDABLE or self.is_for_all(hop)

    def is_for_all(self, hop: Hop) -> bool:
        """Whether the hop may pass on each API, for all callers: as a standby or a gateway, not by an Envelope."""
        if hop.is_envelope:
            return False
        principal = hop.who.principal
        if self.processes is not None:
            return self.processes.may_pass_on(principal)
        node = None if self.nodes is None else self.nodes.of(principal)
        if node == ANY_NODE or (self.nodes is None and principal == ANONYMOUS):
            return True
        return self.is_super(principal) and not (isinstance(node, NodeId) and self.is_brokers(node))
