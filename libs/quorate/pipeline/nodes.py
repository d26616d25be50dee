"""The requests of a reader to the nodes of a running quorum, whichever protocol they speak."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

__all__ = ["FetchAnswer", "NodeUnavailable", "Nodes", "Unanswered"]


class Unanswered(Exception):
    """No node has answered within the retry time, or one has refused for good; the message names the node."""


class NodeUnavailable(Exception):
    """A failure that may be temporary or of one node only; the call is retried at the next node."""


class FetchAnswer(NamedTuple):
    """A response to Fetch; `silent_ms` is how long ago the node heard the leader if that is too long, else None."""

    response: FetchResponse
    silent_ms: int | None = None


class Nodes(Protocol):
    """The nodes of one cluster, one of which is asked at a time. Calls raise NodeUnavailable, or Unanswered."""

    @property
    def endpoint(self) -> str:
        """The `host:port` of the node that is asked next, for messages."""
        ...

    def cluster_id(self) -> str:
        """Returns the id of the node's cluster."""
        ...

    def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Sends a Fetch to the node, and returns its answer; errors of Kafka are in the response."""
        ...

    def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Sends a FetchSnapshot to the node, and returns its answer; errors of Kafka are in it."""
        ...

    def leave(self) -> None:
        """Turns to another node: to the leader if an answer has named one, else to the next in the list."""
        ...

    def close(self) -> None:
        """Closes every connection."""
        ...
