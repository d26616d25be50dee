"""Kafka's envelope ↔ the core's flat messages: the only place that knows topics and partitions.

Every request of the quorum protocol names one topic, `__cluster_metadata`, with one partition, 0. A request
that names anything else is INVALID_REQUEST (KIP-595) and never reaches the core.

envelope   topic, partition, ids, addresses
serving    requests that come in, answers that go out
asking     requests that go out, answers that come in
membership who votes: both ways
"""

from services.quorum.translate.asking import (
    from_begin,
    from_end,
    from_fetch,
    from_fetch_snapshot,
    from_vote,
    to_begin,
    to_end,
    to_fetch,
    to_fetch_snapshot,
    to_vote,
)
from services.quorum.translate.envelope import Address, Endpoints, only
from services.quorum.translate.membership import (
    add_answer,
    add_request,
    api_versions_answer,
    api_versions_request,
    from_add,
    from_api_versions,
    from_remove,
    from_update,
    remove_answer,
    remove_request,
    to_add,
    to_api_versions,
    to_remove,
    to_update,
    transfer_answer,
    transfer_request,
    update_answer,
    update_request,
)
from services.quorum.translate.serving import (
    begin_answer,
    begin_request,
    end_answer,
    end_request,
    fetch_answer,
    fetch_request,
    fetch_snapshot_answer,
    fetch_snapshot_request,
    vote_answer,
    vote_request,
)

__all__ = [
    "Address",
    "Endpoints",
    "add_answer",
    "add_request",
    "api_versions_answer",
    "api_versions_request",
    "begin_answer",
    "begin_request",
    "end_answer",
    "end_request",
    "fetch_answer",
    "fetch_request",
    "fetch_snapshot_answer",
    "fetch_snapshot_request",
    "from_add",
    "from_api_versions",
    "from_begin",
    "from_end",
    "from_fetch",
    "from_fetch_snapshot",
    "from_remove",
    "from_update",
    "from_vote",
    "only",
    "remove_answer",
    "remove_request",
    "to_add",
    "to_api_versions",
    "to_begin",
    "to_end",
    "to_fetch",
    "to_fetch_snapshot",
    "to_remove",
    "to_update",
    "to_vote",
    "transfer_answer",
    "transfer_request",
    "update_answer",
    "update_request",
    "vote_answer",
    "vote_request",
]
