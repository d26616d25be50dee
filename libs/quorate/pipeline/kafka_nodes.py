"""The controllers of a Kafka cluster over Kafka's own wire, asked as an observer with replica id -1 asks them.

Nothing on that cluster changes: a leader keeps no state of such a replica. Only the leader answers a Fetch; the others
name it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from kraft import Message
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from quorate.errors import ApiError, ErrorCode, error_name
from quorate.network.client import Connection
from quorate.network.client_config import ClientConfig, Endpoint
from quorate.network.metadata_fetch import check_version
from quorate.nouns import EndpointType
from quorate.pipeline.nodes import FetchAnswer, NodeUnavailable, Unanswered

__all__ = ["KafkaNodes"]

T = TypeVar("T")
M = TypeVar("M", bound=Message)

_HOPELESS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Refusals of a connection or an API that another try does not change."""


class KafkaNodes:
    """Asks Kafka's controllers at their controller listeners: one, to which it stays connected, until `leave`.

    It blocks: it has an event loop of its own. Calls raise NodeUnavailable, or Unanswered for what no retry changes.
    """

    def __init__(self, bootstrap: Sequence[Endpoint], config: ClientConfig) -> None:
        assert bootstrap
        self._servers = deque(bootstrap)
        self._config = config
        self._runner = asyncio.Runner()
        self._connection: Connection | None = None
        self._at = bootstrap[0]
        self._leader: Endpoint | None = None

    @property
    def endpoint(self) -> str:
        """The address that is asked next."""
        host, port = self._at
        return f"{host}:{port}"

    def cluster_id(self) -> str:
        """Returns the cluster id of the controller, by DescribeCluster. KIP-919."""
        described = self._ask(DescribeClusterResponse, DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLERS))
        if described.error_code:
            reason = described.error_message or "DescribeCluster"
            if described.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise Unanswered(f"endpoint {self.endpoint} refuses to be read from: {reason}")
            raise NodeUnavailable(f"endpoint {self.endpoint}: {error_name(described.error_code)}: {reason}")
        return described.cluster_id

    def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Returns the answer to a Fetch; if it names a leader elsewhere, the next `leave` turns to that one."""
        response = self._ask(FetchResponse, request)
        leaders = {each.current_leader.leader_id for topic in response.responses for each in topic.partitions}
        self._leader = self._named(leaders, response.node_endpoints)
        return FetchAnswer(response)

    def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Returns the answer to a FetchSnapshot (KIP-630); if it names another leader, the next `leave` turns to it."""
        response = self._ask(FetchSnapshotResponse, request)
        leaders = {each.current_leader.leader_id for topic in response.topics for each in topic.partitions}
        self._leader = self._named(leaders, response.node_endpoints)
        return response

    def leave(self) -> None:
        """Closes the connection, and turns to the leader that the last answer named, else to the next server."""
        if self._connection is not None:
            self._run(self._connection.close())
            self._connection = None
        if self._leader is None:
            self._servers.rotate(-1)
        self._at, self._leader = self._leader or self._servers[0], None

    def close(self) -> None:
        """Closes the connection and the loop."""
        if self._connection is not None:
            self._run(self._connection.close())
            self._connection = None
        self._runner.close()

    def _named(
        self,
        leaders: set[int],
        endpoints: Sequence[FetchResponse.NodeEndpoint] | Sequence[FetchSnapshotResponse.NodeEndpoint],
    ) -> Endpoint | None:
        named = [(each.host, each.port) for each in endpoints if each.node_id in leaders]
        return named[0] if named and named[0] != self._at else None

    def _ask(self, answer: type[M], request: Message) -> M:
        return self._run(self._asked(answer, request))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _asked(self, answer: type[M], request: Message) -> M:
        try:
            if self._connection is None or not self._connection.is_open:
                self._connection = await self._config.connect(self._at)
                check_version(self._connection)
            return await self._connection.ask_for(answer, request)
        except ApiError as refusal:
            if refusal.code in _HOPELESS:
                raise Unanswered(f"endpoint {self.endpoint}: {refusal}") from None
            raise NodeUnavailable(f"endpoint {self.endpoint}: {refusal}") from None
        except OSError as failure:
            raise NodeUnavailable(f"endpoint {self.endpoint}: {failure or type(failure).__name__}") from None
