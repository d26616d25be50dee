"""A broker's requests to any controllers: by gRPC to ours; `kafka_controllers` asks Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kraft import Message
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ApiError, ErrorCode, refusal_of
from quorate.runtime.clients.client import Client
from quorate.runtime.clients.patience import Patience
from quorate.runtime.requests.statuses import is_retriable
from quorate.wire.protobuf import to_protobuf, to_struct

__all__ = ["Controllers", "OurControllers", "Retry", "refuse_error"]

M = TypeVar("M", bound=Message)
Retry = Callable[[ApiError], bool]

_METHODS: Final[dict[type[Message], Callable[[ControllerStub], Any]]] = {
    BrokerRegistrationRequest: lambda stub: stub.BrokerRegistration,
    AlterPartitionRequest: lambda stub: stub.AlterPartition,
    AssignReplicasToDirsRequest: lambda stub: stub.AssignReplicasToDirs,
    AllocateProducerIdsRequest: lambda stub: stub.AllocateProducerIds,
}


class Controllers(Protocol):
    """A client of the active controller, which it finds among the controllers that it knows."""

    async def ask(self, answer: type[M], request: Message, *, deadline_ms: int, retry: Retry = is_retriable) -> M:
        """Returns what the active controller answers. `deadline_ms` (ms from now) is the time for all tries together.

        An error of a call for which `retry` returns true is tried again, also elsewhere. Raises ApiError: any other at
        once; the last one when the time is over. The error of an answer as a whole is raised, too, by some only after
        such tries.
        """
        ...

    def asked(self, request: type[Message]) -> str:
        """Returns the address at which such a request is sent next, for the log."""
        ...

    async def close(self) -> None:
        """Ends the connections."""
        ...


class OurControllers:
    """The `Controllers` of Quorate, by gRPC: heartbeats go to heartbeat services, other requests to controllers."""

    def __init__(
        self, controllers: Client[ControllerStub], heartbeats: Client[HeartbeatStub], *, heartbeat_interval_ms: int
    ) -> None:
        """The connection that leaves one heartbeat without an answer for half of the interval has no further one."""
        self._controllers = controllers
        self._heartbeats = heartbeats
        self._patience = Patience(heartbeat_interval_ms / 2_000)

    async def ask(self, answer: type[M], request: Message, *, deadline_ms: int, retry: Retry = is_retriable) -> M:
        """Returns what the active controller answers. `deadline_ms` (ms from now) is the time for all tries together.

        A heartbeat goes to a heartbeat service. An error of a call for which `retry` returns true is tried again, also
        elsewhere. Raises ApiError: any other error of a call, and that of the answer as a whole, at once; the last one
        when the time is over.
        """
        asked: Any = to_protobuf(request)
        if isinstance(request, BrokerHeartbeatRequest):
            # The keepalive would take longer to find a connection dead than the session lasts.
            said: Any = await self._heartbeats.call(
                lambda stub: stub.BrokerHeartbeat, asked, deadline_ms=deadline_ms, retry=retry, patience=self._patience
            )
        else:
            said = await self._controllers.call(_METHODS[type(request)], asked, deadline_ms=deadline_ms, retry=retry)
        found = to_struct(said)
        assert isinstance(found, answer), (type(found), answer)
        refuse_error(found)
        return found

    def asked(self, request: type[Message]) -> str:
        """Returns the address of the service to which such a request is sent next, for the log."""
        return self._heartbeats.address if request is BrokerHeartbeatRequest else self._controllers.address

    async def close(self) -> None:
        """Ends the connections."""
        await self._controllers.close()
        await self._heartbeats.close()


def refuse_error(answer: Message) -> None:
    """Raises ApiError if the answer's top-level `error_code` is an error; an answer without the field is none."""
    code: int = getattr(answer, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE:
        raise refusal_of(code, f"so says {type(answer).__name__}")
