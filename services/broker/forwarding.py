"""Admin APIs that controllers answer: passed on to a gateway in an Envelope, in the client's name (KIP-590)."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Final

from kraft import Message
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ApiError, ErrorCode, error_of
from quorate.network.client import Connection, Timeouts
from quorate.network.listening import ConnectedClient
from quorate.protocol import ClientSettings, ProtocolError, Request
from quorate.protocol.api_versions import Versions
from quorate.protocol.apis import all_apis
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.runtime.logs import logger
from quorate.runtime.passing_on import FORWARDABLE
from quorate.runtime.refusals import refused
from quorate.runtime.repeats import ChangeFilter
from quorate.runtime.setting_types import Endpoint
from quorate.runtime.turns import in_turns
from quorate.wire.codec import encode
from quorate.wire.fitting import fitted_in_steps
from services.broker.peers import Peers

__all__ = ["FORWARDED", "Forwarding"]

log = logger(__name__)

OF_BROKERS: Final = frozenset({"AllocateProducerIds"})
"""What brokers ask controllers, and clients never ask brokers."""
FORWARDED: Final[Versions] = {
    key: api.versions for key, api in all_apis().items() if api.name in FORWARDABLE - OF_BROKERS
}
TIMEOUT_MS: Final = 30_000
"""For a request that has no time of its own: Kafka's `request.timeout.ms`."""
TIMEOUT_MS_MAX: Final = 120_000
"""As long as a gateway waits for a controller."""
PAUSE_S: Final = 0.1
"""Between two rounds over the gateways; Kafka's `retry.backoff.ms`."""
SETTINGS: Final = ClientSettings(client_id="broker", in_flight_max=100)
"""Answers of a connection come in the order of the requests, so one that takes long holds up those after it."""
TIMEOUTS: Final = Timeouts(request_ms=125_000)
"""Longer than a gateway waits for a controller: a request's own time ends it, and not all of the connection."""
PRINCIPAL_VERSION: Final = 0


class Forwarding:
    """Passes admin clients' requests on to controllers in Envelopes (KIP-590), by the gateway that answered last.

    If that one does not answer, the next one is asked.
    """

    def __init__(self, gateways: Sequence[Endpoint], peers: Peers) -> None:
        self._peers = peers
        self._gateways = gateways
        self._at = 0
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._told = ChangeFilter()

    @property
    def served(self) -> Versions:
        """What can be passed on; nothing without a gateway."""
        return FORWARDED if self._gateways else {}

    async def answer(self, request: Request, client: ConnectedClient) -> Message:
        """Returns the controller's answer. If there is none in the request's time, it is REQUEST_TIMED_OUT."""
        version = request.header.request_api_version
        timeout_ms = min(getattr(request.message, "timeout_ms", 0) or TIMEOUT_MS, TIMEOUT_MS_MAX)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._answered(request, client)
        except TimeoutError:
            why = f"no gateway has answered {request.api.name} in {timeout_ms} ms"
            refusal = ApiError(ErrorCode.REQUEST_TIMED_OUT, why)
        except ApiError as error:
            refusal = error
        response = await in_turns(refused(request.message, refusal, version, request.principal))
        return await in_turns(fitted_in_steps(response, version))

    async def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def _answered(self, request: Request, client: ConnectedClient) -> Message:
        """Asks until a gateway answers for the active controller. Raises ApiError for the envelope's own error."""
        envelope = _envelope(request, client)
        while True:
            for _ in self._gateways:
                if (answer := await self._asked(envelope)) is not None:
                    return _opened(request, answer)
            await asyncio.sleep(PAUSE_S)

    async def _asked(self, envelope: EnvelopeRequest) -> EnvelopeResponse | None:
        """Returns a gateway's answer; None if there is none, or it finds no active controller: then the next is asked.

        What was under way may have been done, and is asked for again, as by Kafka's brokers.
        """
        connection = None
        try:
            connection = await self._connected()
            answer = await connection.ask_for(EnvelopeResponse, envelope)
        except (OSError, ApiError) as problem:
            self._leave(connection, str(problem))
            return None
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            self._leave(connection, "it finds no active controller")
            return None
        self._told.settle("gateways")
        return answer

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or not self._connection.is_open:
                at = self._gateways[self._at]
                self._connection = None
                self._connection = await self._peers.connect(at.host, at.port, settings=SETTINGS, timeouts=TIMEOUTS)
            return self._connection

    def _leave(self, connection: Connection | None, why: str) -> None:
        """Asks the next gateway from now on, unless somebody has found the same already."""
        if connection is not self._connection:
            return
        if self._told.passes("gateways", why, asyncio.get_running_loop().time()):
            log.warning("a gateway does not answer for a controller", gateway=str(self._gateways[self._at]), reason=why)
        self._at = (self._at + 1) % len(self._gateways)
        self._connection = None
        if connection is not None:  # what is under way on it may still be answered
            asyncio.get_running_loop().call_later(TIMEOUTS.request_ms / 1000, connection.abort)


def _envelope(request: Request, client: ConnectedClient) -> EnvelopeRequest:
    """Returns the request as its client has sent it, with who that is and from where."""
    header = request.header
    principal = DefaultPrincipalData(
        type=request.principal.type, name=request.principal.name, token_authenticated=request.is_token
    )
    return EnvelopeRequest(
        request_data=encode_request(
            request.api,
            request.message,
            version=header.request_api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
        ),
        request_principal=PRINCIPAL_VERSION.to_bytes(2, "big") + encode(principal, PRINCIPAL_VERSION),
        client_host_address=ipaddress.ip_address(client.host).packed,
    )


def _opened(request: Request, answer: EnvelopeResponse) -> Message:
    """Returns the answer to the request. Raises ApiError: the envelope was refused, or what is in it is no answer."""
    if answer.error_code or answer.response_data is None:
        code = error_of(answer.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
        # As Kafka's brokers: what is wrong between broker and controller is no fault of the client.
        log.warning("a gateway refuses an envelope", api=request.api.name, code=code.name)
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the envelope was refused: {code.name}")
    version = request.header.request_api_version
    try:
        _, position = decode_response_header(request.api, version, answer.response_data)
        return decode_body(request.api.response, answer.response_data, position, version)
    except ProtocolError as problem:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer is not Kafka's: {problem}") from None
