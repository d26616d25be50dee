"""`principal.node.id.mapping.rules`: which node a principal is, so that none speaks for another.

The rules are written as those of `ssl.principal.mapping.rules`, and tried on the principal's name in their order; the
first that is for it counts. A rule gives a node id, or `*` for a caller that may speak for every node: who passes on
the requests of others, or a cluster whose nodes share one certificate. Anything else is no node. Not in Kafka.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from quorate.nouns import NodeId, Principal
from quorate.tls.ssl_principals import parse_rules

__all__ = ["ANY_NODE", "NodeIds"]

ANY_NODE: Final = "*"
NODE_ID_MAX: Final = 2**31 - 1
PRINCIPALS_MAX: Final = 4_096
"""Of so many principals the node is kept: a heartbeat costs a look-up."""


class NodeIds:
    """Finds the node that a principal is: `of` returns its id, `*` for any node, None for no node.

    >>> ids = NodeIds(r"RULE:^(quorum|broker)-([0-9]+)$/$2/,RULE:^gateway-.*$/*/")
    >>> [ids.of(Principal("User", name)) for name in ("broker-12", "gateway-1", "alice")]
    [12, '*', None]
    """

    def __init__(self, rules: str) -> None:
        """Raises ValueError for rules that are none."""
        self._rules = parse_rules(rules)
        self.of = lru_cache(PRINCIPALS_MAX)(self._of)

    def allows(self, principal: Principal, node_id: NodeId) -> bool:
        """Returns whether the principal may speak for the node; for a negative id, which is no node's, each may."""
        return node_id < 0 or self.of(principal) in (node_id, ANY_NODE)

    def _of(self, principal: Principal) -> NodeId | str | None:
        found = next((each for rule in self._rules if (each := rule.apply(principal.name)) is not None), None)
        if found is None or found == ANY_NODE:
            return found
        return int(found) if re.fullmatch("[0-9]{1,10}", found) and int(found) <= NODE_ID_MAX else None
