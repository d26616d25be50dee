"""Kafka's protocol at the broker's listeners: which APIs are served and by what, and with which features (KIP-584)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple

from kraft import Message
from kraft.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.delete_records import DeleteRecordsRequest
from kraft.api.describe_log_dirs import DescribeLogDirsRequest
from kraft.api.describe_producers import DescribeProducersRequest
from kraft.api.fetch import FetchRequest
from kraft.api.find_coordinator import FindCoordinatorRequest
from kraft.api.init_producer_id import InitProducerIdRequest
from kraft.api.list_offsets import ListOffsetsRequest
from kraft.api.list_transactions import ListTransactionsRequest
from kraft.api.metadata import MetadataRequest
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kraft.api.produce import ProduceRequest
from kraft.api.write_txn_markers import WriteTxnMarkersRequest
from quorate.controller.api_versions import api_versions
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.listeners.opening import listening_of, opened
from quorate.listeners.security import ListenerSecurity
from quorate.network.listening import ConnectedClient, Unanswerable
from quorate.network.server import KafkaServer
from quorate.protocol import Request
from quorate.protocol.api_versions import Versions
from quorate.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, all_apis, api_of
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.following.replica import Replica
from services.broker.callers import Caller, Callers
from services.broker.cluster import Cluster
from services.broker.coordinators import Coordinators
from services.broker.deletion import Deletion
from services.broker.descriptions import describe_log_dirs, describe_producers, list_transactions
from services.broker.directories import LogDirectories
from services.broker.fetch import Fetch
from services.broker.forwarding import FORWARDED, Forwarding
from services.broker.listener_config import BrokerListeners
from services.broker.logins import BrokerLogins
from services.broker.moves import Moves
from services.broker.offsets import Offsets
from services.broker.peers import Peers
from services.broker.produce import Produce
from services.broker.producer_ids import ProducerIds
from services.broker.reads import DESCRIBED, Reads
from services.broker.replicas import Replicas
from services.broker.tracing import ProduceTraces
from services.broker.transaction_coordinators import TransactionCoordinators
from services.broker.transaction_markers import TransactionMarkers
from services.broker.verification import Verifier

__all__ = ["Asking", "Wire"]

ANSWERED: Final = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    InitProducerIdRequest,
    FindCoordinatorRequest,
    DescribeLogDirsRequest,
    AlterReplicaLogDirsRequest,
    DescribeProducersRequest,
    DeleteRecordsRequest,
    WriteTxnMarkersRequest,
    ListTransactionsRequest,
    *DESCRIBED,
)
SERVED: Final[Versions] = {
    **{api_of(each).key: api_of(each).versions for each in ANSWERED},
    **{key: all_apis()[key].versions for key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)},
}
"""The APIs that are listed. The last three a connection answers by itself; librdkafka logs in only where they are
listed."""
KRAFT_VERSION_OF_BROKERS: Final = 0
"""Brokers list no kraft.version: it is the quorum's."""


class Asking(NamedTuple):
    """The parts that answer about the cluster, rights and logins, and the connections to others."""

    reads: Reads
    callers: Callers
    logins: BrokerLogins
    peers: Peers


class Wire:
    """Answers the requests at this broker's listeners, by the state that it has applied and the logs that it has."""

    def __init__(
        self,
        replica: Replica,
        replicas: Replicas,
        cluster: Cluster,
        directories: LogDirectories,
        traces: ProduceTraces,
        forwarding: Forwarding,
        asking: Asking,
    ) -> None:
        self._replica = replica
        self._replicas = replicas
        self._cluster = cluster
        self._directories = directories.all
        self._forwarding = forwarding
        self._reads, self._callers, self._logins = asking.reads, asking.callers, asking.logins
        self._coordinators = Coordinators(replicas.broker_id, replica, cluster)
        self._transactions = TransactionCoordinators(self._coordinators.of_transaction, asking.peers)
        self._produce = Produce(replicas, cluster, traces, Verifier(replicas, cluster, self._transactions))
        self._markers = TransactionMarkers(replicas, cluster)
        self._fetch = Fetch(replicas, cluster, traces)
        self._offsets = Offsets(cluster)
        self._deletion = Deletion(replicas, cluster)
        self._begun = asyncio.Event()
        self._served = {**SERVED, **forwarding.served}

    def begin(self, producer_ids: ProducerIds, moves: Moves) -> None:
        """Answers from now on; what has come before has waited, as at a Kafka broker that catches up."""
        self._producer_ids, self._moves = producer_ids, moves
        self._logins.begin()
        self._begun.set()

    async def close(self) -> None:
        """Ends the connections to other brokers."""
        await self._transactions.close()

    def serving(
        self, config: BrokerListeners, security: Mapping[str, ListenerSecurity]
    ) -> AbstractAsyncContextManager[dict[str, KafkaServer]]:
        """Listens at each of `listeners` until the context exits; yields the servers by name. Raises CannotListen."""
        of_all = listening_of(
            config,
            self._answer,
            served=self._served,
            describe_versions=self._versions,
            large_may_wait=True,
        )
        return opened(config, security, of_all, self._logins)

    async def asked(self, message: Message, version: int, caller: Caller) -> Message | None:
        """Answers what has come by gRPC, as `BrokerService` passes it on, once the broker takes part; None with acks=0.

        Raises ApiError(KAFKA_STORAGE_ERROR) if a disk fails, which ends the broker.
        """
        await self._begun.wait()
        try:
            return await self._answered(message, version, caller)
        except (OSError, Corrupt) as problem:
            self._replicas.fail(problem)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"this broker's disk has failed: {problem}") from problem

    def _versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        features = self._replica.state.features
        offered = {key: self._forwarding.offered(key, each) for key, each in self._served.items()}
        keys = tuple(ApiVersionsResponse.ApiVersion(key, *_ends(each)) for key, each in offered.items() if each)
        return api_versions(features, kraft_version=KRAFT_VERSION_OF_BROKERS, served=keys)

    async def _answer(self, request: Request, client: ConnectedClient) -> Message | None:
        """Answers a request once this broker takes part. Bytes that a disk does not give back as written are a fatal
        error."""
        await self._begun.wait()
        try:
            if request.api.key in FORWARDED:
                return await self._forwarding.answer(request, client)
            caller = self._callers.of(request, client)
            if isinstance(request.message, DESCRIBED):
                return await self._reads.answer(request, caller)
            return await self._answered(request.message, request.header.request_api_version, caller)
        except (OSError, Corrupt) as problem:
            self._replicas.fail(problem)
            raise Unanswerable(f"{request.api.name}: {problem}") from problem

    async def _answered(self, message: Message, version: int, caller: Caller) -> Message | None:
        match message:
            case ProduceRequest() as asked:
                return await self._produce.answer(asked, version, caller)
            case FetchRequest() as asked:
                return await self._fetch.answer(asked, version, caller)
            case ListOffsetsRequest() as asked:
                return await in_turns(self._offsets.list(asked, version, caller))
            case OffsetForLeaderEpochRequest() as asked:
                return await in_turns(self._offsets.of_epochs(asked, caller))
            case MetadataRequest() as asked:
                return await in_turns(self._cluster.metadata(asked, version, caller))
            case DeleteRecordsRequest() as asked:
                return await self._deletion.answer(asked, caller)
            case WriteTxnMarkersRequest() as asked:
                return await self._markers.answer(asked, caller)
            case ListTransactionsRequest() as asked:
                return list_transactions(asked)
            case InitProducerIdRequest() as asked:
                return await self._producer_ids.answer(asked, caller)
            case FindCoordinatorRequest() as asked:
                return await in_turns(self._coordinators.answer(asked, version, caller))
            case DescribeLogDirsRequest() as asked:
                return await in_turns(describe_log_dirs(asked, self._directories, self._replicas.table, caller))
            case AlterReplicaLogDirsRequest() as asked:
                return await in_turns(self._moves.answer(asked, self._directories, caller))
            case DescribeProducersRequest() as asked:
                return await in_turns(describe_producers(asked, self._cluster, caller))
        raise Unanswerable(f"{type(message).__name__} is not served")


def _ends(versions: range) -> tuple[int, int]:
    return versions[0], versions[-1]
