"""Answers Kafka's requests: each goes over gRPC to the service that owns the API, by the schema alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from kraft import Message
from kraft.api.api_versions import ApiVersionsResponse
from kraft.api.api_versions_pb2 import ApiVersionsRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_quorum import DescribeQuorumResponse
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.errors import ApiError, ErrorCode
from quorate.listeners.order import Order
from quorate.network.listening import ConnectedClient, Unanswerable
from quorate.nouns import ANONYMOUS, EndpointType, NodeId, Principal
from quorate.protocol import ApiMessageType, Request
from quorate.runtime.access.claims import CLAIMS, check_claim
from quorate.runtime.access.passing_on import (
    CLIENT_HOST,
    CLIENT_ID,
    CLIENT_PRINCIPAL,
    FORWARDER_PRINCIPAL,
    HOP,
    PASSED_ON,
    client_id_text,
    principal_text,
)
from quorate.runtime.access.token_requests import check_token_request
from quorate.runtime.clients.client import call
from quorate.runtime.event_loop.turns import in_turns, protobuf_of, struct_of
from quorate.runtime.logging.logs import logger
from quorate.runtime.requests.refusals import refused, shorten_messages
from quorate.runtime.requests.statuses import is_gone
from quorate.runtime.settings.setting_types import Endpoint
from quorate.runtime.telemetry.tracing import OFF, Attributes, SpanKind, Telemetry
from quorate.tls.node_ids import NodeIds
from services.gateway.apis import ENVELOPE, READS, ROUTES, SERVED, Backend
from services.gateway.at_once import AtOnce
from services.gateway.endpoints import Endpoints
from services.gateway.envelope import enclosed, sealed
from services.gateway.features import ApiVersionsCache
from services.gateway.guard import ClusterActionGuard
from services.gateway.keep_alives import KeepAlives
from services.gateway.metrics import ERRORS, TIME
from services.gateway.older import answered_in, as_newest
from services.gateway.reader_fetches import ReaderFetches

__all__ = ["Gateway"]

log = logger(__name__)

DEADLINE_MS: Final = 30_000
"""How long a call without a limit of its own may take: Kafka's default `request.timeout.ms`; then clients give up."""
MARGIN_MS: Final = 2_000
"""How much longer than the request's own limit (timeout_ms) a call may take: the controller's answer comes first."""
FETCH_MARGIN_MS: Final = 5_000
"""The same for `max_wait_ms`."""
DEADLINE_MS_MAX: Final = 120_000
ASK_MS: Final = 5_000
CALLERS_CACHED: Final = 1_024
"""The metadata of so many callers is cached: at most some 8 KiB each, and of most 200 bytes."""

Metadata = Sequence[tuple[str, str]]


class Gateway:
    """Answers Kafka's requests: an instance is called with each, and passes it on by gRPC to the service of its API.

    `stubs` are the services beside this gateway. Without a `guard` nothing is authorized here; the controller
    authorizes its own requests. `gateways` has where each node is reached, by listener and id, `addresses` where each
    service is: spans name it. Without `readers` each Fetch is passed on.
    """

    def __init__(
        self,
        stubs: Mapping[Backend, Any],
        gateways: Mapping[str, Mapping[NodeId, Endpoint]],
        telemetry: Telemetry = OFF,
        guard: ClusterActionGuard | None = None,
        nodes: NodeIds | None = None,
        addresses: Mapping[Backend, str] = MappingProxyType({}),
        readers: ReaderFetches | None = None,
    ) -> None:
        self._stubs = stubs
        self._guard = guard
        self._nodes = nodes
        self._addresses = addresses
        self._readers = readers
        self._endpoints = {name: Endpoints(gateways, name) for name in gateways}
        self._telemetry = telemetry
        self._order = Order()
        self.at_once = AtOnce(readers, KeepAlives(stubs[Backend.HEARTBEAT]), guard, nodes)
        """The `quorate.network.listening.Take` that is asked before this."""
        self.features = ApiVersionsCache(self._ask_features, SERVED, controller=addresses.get(Backend.CONTROLLER, ""))

    @property
    def controller(self) -> Any:
        """The stub of the controller beside this gateway."""
        return self._stubs[Backend.CONTROLLER]

    async def __call__(self, request: Request, client: ConnectedClient) -> Message:
        """Answers one request. Raises Unanswerable if the service is gone: the client sees what a dead node shows."""
        name, now_s = request.api.name, asyncio.get_running_loop().time  # asked once: it is a call of the kernel
        began = now_s()
        begins_trace = ROUTES.get(request.api.key) is Backend.CONTROLLER or request.api.key == ENVELOPE
        attributes: Attributes = {"kraft.api": name, "kraft.api.version": request.header.request_api_version}
        with self._telemetry.span(name, kind=SpanKind.SERVER, attributes=attributes, root=begins_trace):
            try:
                if ROUTES.get(request.api.key) is not Backend.CONTROLLER:
                    return await self._answered(request, client)
                connection = client.listener, client.host, client.port
                async with self._order.turn(connection, writes=request.api.key not in READS):
                    return await self._answered(request, client)
            finally:
                TIME.record(now_s() - began, {"kraft.api": name})

    async def _answered(self, request: Request, client: ConnectedClient) -> Message:
        message, header = request.message, request.header
        if isinstance(message, EnvelopeRequest):
            return await self._opened(message, request, client)
        newest = await as_newest(message, header.request_api_version)
        try:
            caller = _metadata(client_id_text(header.client_id or ""), request.principal, client.host)
            check_token_request(request.api.name, is_token=request.is_token)
            await self._check_right(request, caller)
            self._check_node(request, newest, client)
            response = await self._read_here(request, newest, client.listener)
            if response is None:
                response = await self._asked(request.api, newest, header.request_api_version, caller, client.listener)
        except ApiError as refusal:
            response = await _refused(request.api, newest, refusal, header.request_api_version, request.principal)
        return await answered_in(header.request_api_version, newest, response)

    async def _check_right(self, request: Request, caller: Metadata) -> None:
        """Raises ApiError if the principal may not ask what no controller answers, or Unanswerable."""
        if self._guard is None or ROUTES.get(request.api.key) is Backend.CONTROLLER:
            return
        try:
            await self._guard.check(request.api.name, request.principal, caller)
        except ApiError as refusal:
            raise _gone_or(
                refusal, f"{request.api.name}: the controller has not answered whether the caller may send it"
            ) from None

    def _check_node(self, request: Request, newest: Message, client: ConnectedClient) -> None:
        """Checks that a client is the node that it speaks for, where the service behind knows the gateway alone.

        A controller checks it itself, by the principal that is passed on. Raises ApiError.
        """
        claimed = CLAIMS.get(request.api.name)
        if self._nodes is None or claimed is None or ROUTES[request.api.key] is Backend.CONTROLLER:
            return
        who, name = request.principal, request.api.name
        check_claim(self._nodes, claimed(newest), api=name, principal=who, host=client.host)

    async def _opened(self, envelope: EnvelopeRequest, request: Request, client: ConnectedClient) -> EnvelopeResponse:
        """Answers the request inside of an envelope; NOT_CONTROLLER is the envelope's own error. KIP-590.

        It is opened for a sender that may pass requests on: others do not learn how it was read.
        """
        forwarder = request.principal
        try:
            sender = _metadata(client_id_text(request.header.client_id or ""), forwarder, client.host)
            await self._check_right(request, sender)
            inside = await in_turns(enclosed(envelope))
            version = inside.header.request_api_version
            hosts = inside.host, client.host
            client_id = client_id_text(inside.header.client_id or "")
            caller = _metadata(client_id, inside.principal, *hosts, forwarder=forwarder)
            newest = await as_newest(inside.message, version)
            try:
                check_token_request(inside.api.name, is_token=inside.is_token)
                response = await self._asked(inside.api, newest, version, caller, client.listener)
                _check_leads(response)
            except ApiError as refusal:
                if refusal.code is ErrorCode.NOT_CONTROLLER or HOP in refusal.metadata:
                    raise
                response = await _refused(inside.api, newest, refusal, version, inside.principal)
            response = await answered_in(version, newest, response)
            return await in_turns(sealed(inside, response))
        except ApiError as refusal:
            log.info("an envelope is refused", client=client.host, reason=str(refusal))
            ERRORS.add(1, {"kraft.api": "Envelope", "kraft.error": refusal.code.name})
            return EnvelopeResponse(error_code=int(refusal.code))

    async def _asked(
        self, api: ApiMessageType, message: Message, version: int, caller: Metadata, listener: str
    ) -> Message:
        """Returns the service's answer, with addresses at `listener`. Raises ApiError or Unanswerable."""
        if isinstance(message, DescribeClusterRequest):
            _check_endpoint_type(message, version)
        backend, endpoints = ROUTES[api.key], self._endpoints[listener]
        try:
            answer = await call(
                getattr(self._stubs[backend], api.name),
                await protobuf_of(message),
                deadline_ms=_deadline_ms(message),
                telemetry=self._telemetry,
                metadata=caller if backend is Backend.CONTROLLER else endpoints.metadata,
                server=self._addresses.get(backend, ""),
            )
        except ApiError as refusal:
            raise _gone_or(refusal, f"{api.name}: the {backend.name.lower()} service does not answer") from None
        if isinstance(message, UpdateFeaturesRequest):
            await self.features.refresh()
        response = endpoints.reachable(await _read(answer))
        if isinstance(message, FetchRequest) and self._readers is not None:
            assert isinstance(response, FetchResponse), response
            self._readers.passed(message, listener, response)
        return response

    async def _read_here(self, request: Request, newest: Message, listener: str) -> Message | None:
        """Answers a Fetch from this gateway's own end of the log; None if the node has to.

        A Fetch that `at_once` has left is the node's: asked again, readers would count it as passed on, and answer it.
        """
        if self._readers is None or not isinstance(newest, FetchRequest) or self.at_once.reads(request):
            return None
        served = await self._readers.answer(newest, listener)
        return None if served is None else served.response

    async def _ask_features(self) -> ApiVersionsResponse:
        answer = await call(self._stubs[Backend.CONTROLLER].ApiVersions, ApiVersionsRequest(), deadline_ms=ASK_MS)
        found = await _read(answer)
        assert isinstance(found, ApiVersionsResponse), found
        return found


def _check_leads(response: Message) -> None:
    """Raises ApiError(NOT_CONTROLLER) if a node that does not lead has described the quorum.

    It is the envelope's own error then, by which a broker looks for the active controller anew (KIP-590).
    """
    described = response.topics if isinstance(response, DescribeQuorumResponse) else ()
    if any(each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER for topic in described for each in topic.partitions):
        raise ApiError(ErrorCode.NOT_CONTROLLER, "the node does not lead the quorum that is to be described")


def _gone_or(refusal: ApiError, what: str) -> Exception:
    """Returns the refusal, or Unanswerable if it is none: the service beside this gateway is gone.

    If one further on is gone, only this request gets an error: others of the connection go on.
    """
    return Unanswerable(f"{what}: {refusal}") if is_gone(refusal) else refusal


async def _read(answer: Any) -> Message:
    """Converts a service's protobuf answer to the struct of Kafka's message. Raises ApiError(UNKNOWN_SERVER_ERROR)."""
    try:
        found: Message = await struct_of(answer)
    except ApiError:
        found = await _read_shortened(answer)
    return found


async def _read_shortened(answer: Any) -> Message:
    """Converts an answer in which a message may be longer than Kafka's form has a place for; the answer changes."""
    try:
        await in_turns(shorten_messages(answer))
        found: Message = await struct_of(answer)
    except ApiError as misfit:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the service's answer is not Kafka's: {misfit}") from None
    return found


async def _refused(
    api: ApiMessageType, message: Message, refusal: ApiError, version: int, principal: Principal
) -> Message:
    ERRORS.add(1, {"kraft.api": api.name, "kraft.error": refusal.code.name})
    log.debug("refused", api=api.name, code=refusal.code.name, reason=refusal.message)
    return await in_turns(refused(message, refusal, version, principal))


def _check_endpoint_type(request: DescribeClusterRequest, version: int) -> None:
    """Raises ApiError if brokers are asked for: a controller's listener has controllers only. KIP-919."""
    if request.endpoint_type != EndpointType.BROKERS:
        return
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if version else ErrorCode.INVALID_REQUEST
    raise ApiError(
        code, "this is a controller's listener, and endpoint type 1 asks for brokers; 2 asks for controllers"
    )


def _deadline_ms(message: Message) -> int:
    """Returns how long a call may take: a limit of its own bounds it, however short; 0 is refused by the controller."""
    if (timeout_ms := getattr(message, "timeout_ms", 0)) > 0:
        return int(min(DEADLINE_MS_MAX, timeout_ms + MARGIN_MS))
    return int(min(DEADLINE_MS_MAX, max(DEADLINE_MS, getattr(message, "max_wait_ms", 0) + FETCH_MARGIN_MS)))


@lru_cache(CALLERS_CACHED)
def _metadata(client_id: str, principal: Principal, *hosts: str, forwarder: Principal = ANONYMOUS) -> Metadata:
    """Returns the metadata by which a controller knows whose request it is; the first of `hosts` is the caller's.

    `client_id` is as `client_id_text` has it, so that no long one is cached. Raises ApiError for a principal that is
    too long.
    """
    metadata = [(PASSED_ON, "1"), *((CLIENT_HOST, host) for host in hosts)]
    if client_id:
        metadata.append((CLIENT_ID, client_id))
    if principal != ANONYMOUS:
        metadata.append((CLIENT_PRINCIPAL, principal_text(principal)))
    if forwarder != ANONYMOUS:
        metadata.append((FORWARDER_PRINCIPAL, principal_text(forwarder)))
    return tuple(metadata)
