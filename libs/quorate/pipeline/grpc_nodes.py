"""The nodes of a Quorate cluster over gRPC, asked by `RelayFetchStream`, which followers and observers serve, too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import grpc
from google.protobuf.message import Message as ProtobufMessage

from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.service.quorum_pb2 import FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError
from quorate.pipeline.grpc_security import StoreFiles
from quorate.pipeline.nodes import FetchAnswer, NodeUnavailable, Unanswered
from quorate.runtime.clients.client import RECEIVE_BYTES_MAX
from quorate.runtime.connections.transport import WITHOUT_PROXY
from quorate.runtime.following.log_reader import DEADLINE_S, SILENT_MS_MAX
from quorate.tls.key_stores import read_stores
from quorate.wire.protobuf import to_protobuf, to_struct

__all__ = ["GrpcNodes", "credentials"]

T = TypeVar("T")
Stub = Any
"""A QuorumStub on a blocking channel. Its type is Any because the generated types are those of asyncio's stub."""


class GrpcNodes:
    """Asks quorum nodes or observers over gRPC, one address at a time until `leave`; it blocks.

    Any of them will do, so that the leader is spared. Calls raise NodeUnavailable, or Unanswered for what is no node.
    """

    def __init__(self, endpoints: Sequence[str], files: StoreFiles | None = None) -> None:
        """Reads the files for TLS; without them it speaks in the clear. Raises ValueError with property and file."""
        assert endpoints
        self._credentials = None if files is None else credentials(files)
        self._endpoints = deque(endpoints)
        self._channels: dict[str, grpc.Channel] = {}

    @property
    def endpoint(self) -> str:
        """The address that is asked next."""
        return self._endpoints[0]

    def cluster_id(self) -> str:
        """Returns the cluster id of the node, which it asks by FindQuorum."""
        return self._ask(lambda stub: cast(str, stub.FindQuorum(FindQuorumRequest(), timeout=DEADLINE_S).cluster_id))

    def fetch(self, request: FetchRequest) -> FetchAnswer:
        """Returns the answer to one Fetch, on a RelayFetchStream; errors of Kafka are in the response."""
        asked = to_protobuf(request)
        answer = self._ask(lambda stub: next(stub.RelayFetchStream(iter([asked]), timeout=DEADLINE_S), None))
        if answer is None:
            raise NodeUnavailable(f"endpoint {self.endpoint} ended the stream without an answer")
        silent_ms = answer.silent_ms if answer.silent_ms > SILENT_MS_MAX else None
        return FetchAnswer(cast(FetchResponse, self._read(answer.response)), silent_ms)

    def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Returns the answer to a FetchSnapshot, by RelayFetchSnapshot; errors of Kafka are in the response."""
        asked = to_protobuf(request)
        answer = self._ask(lambda stub: stub.RelayFetchSnapshot(asked, timeout=DEADLINE_S))
        return cast(FetchSnapshotResponse, self._read(answer.response))

    def leave(self) -> None:
        """Turns to the next address."""
        self._endpoints.rotate(-1)

    def close(self) -> None:
        """Closes every channel."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _ask(self, ask: Callable[[Stub], T]) -> T:
        try:
            return ask(self._stub(self.endpoint))
        except grpc.RpcError as failure:
            code = failure.code()
            if code is grpc.StatusCode.UNIMPLEMENTED:
                raise Unanswered(f"endpoint {self.endpoint} serves no kraft.service.Quorum") from None
            raise NodeUnavailable(f"endpoint {self.endpoint}: {code.name}: {failure.details()}") from None

    def _read(self, answer: ProtobufMessage) -> object:
        try:
            return to_struct(answer)
        except ApiError as misfit:
            raise NodeUnavailable(f"endpoint {self.endpoint}: its answer cannot be read: {misfit.message}") from None

    def _stub(self, endpoint: str) -> Stub:
        if endpoint not in self._channels:
            limits = (("grpc.max_receive_message_length", RECEIVE_BYTES_MAX), ("grpc.enable_retries", 0))
            options = [*WITHOUT_PROXY, *limits]
            self._channels[endpoint] = (
                grpc.insecure_channel(endpoint, options=options)
                if self._credentials is None
                else grpc.secure_channel(endpoint, self._credentials, options=options)
            )
        channel: Any = self._channels[endpoint]
        return QuorumStub(channel)


def credentials(files: StoreFiles) -> grpc.ChannelCredentials:
    """Reads the PEM files and returns gRPC's credentials for TLS with a client's certificate.

    Raises ValueError with property and file.
    """
    stores = read_stores(files.keystore, files.truststore)
    # gRPC finds the key and the certificates in the same text.
    return grpc.ssl_channel_credentials(stores.truststore, stores.keystore, stores.keystore)
