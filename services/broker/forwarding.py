"""Admin APIs that controllers answer: passed on in an Envelope, in the client's name (KIP-590).

It goes to a gateway, or to the active controller of Kafka's.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from typing import Final

from kraft import Message
from kraft.api.envelope import EnvelopeRequest, EnvelopeResponse
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ApiError, ErrorCode, error_of
from quorate.listeners.order import Order
from quorate.network.listening import ConnectedClient
from quorate.protocol import ProtocolError, Request
from quorate.protocol.api_versions import Versions
from quorate.protocol.apis import all_apis
from quorate.protocol.messages import decode_body, decode_response_header, encode_request
from quorate.runtime.access.passing_on import FORWARDABLE
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.logging.logs import logger
from quorate.runtime.requests.refusals import refused
from quorate.wire.codec import encode
from quorate.wire.fitting import fitted_in_steps
from services.broker.controller_connection import ControllerConnection, NoAnswer

__all__ = ["FORWARDED", "Forwarding"]

log = logger(__name__)

OF_BROKERS: Final = frozenset({"AllocateProducerIds"})
"""APIs that brokers ask of controllers, and clients never of brokers."""
FORWARDED: Final[Versions] = {
    key: api.versions for key, api in all_apis().items() if api.name in FORWARDABLE - OF_BROKERS
}
TIMEOUT_MS: Final = 30_000
"""For a request that has no time of its own: Kafka's `request.timeout.ms`."""
TIMEOUT_MS_MAX: Final = 120_000
"""As long as a gateway waits for a controller."""
PAUSE_S: Final = 0.1
"""Between two rounds over those who may answer; Kafka's `retry.backoff.ms`."""
PRINCIPAL_VERSION: Final = 0


class Forwarding:
    """Passes admin clients' requests on to controllers in Envelopes (KIP-590).

    If who is asked does not answer for the active controller, the next one is asked, until the request's time is over.
    """

    def __init__(
        self, connection: ControllerConnection | None, known: Callable[[], Mapping[int, range]] | None = None
    ) -> None:
        """Without a `connection` nothing is passed on. `known` returns what the controllers support, by API key."""
        self._connection = connection
        self._known = known
        self._order = Order()

    @property
    def served(self) -> Versions:
        """The APIs that can be passed on; none without a receiver."""
        return FORWARDED if self._connection is not None else {}

    def offered(self, key: int, versions: range) -> range:
        """Returns the versions of an API for ApiVersions; of one that is passed on, those that controllers know, too.

        Empty if they know none of `versions`; all of `versions` while nothing is known of the controllers.
        """
        known = self._known() if self._known is not None else {}
        if key not in FORWARDED or not known:
            return versions
        of_controller = known.get(key, range(0))
        return range(max(versions.start, of_controller.start), min(versions.stop, of_controller.stop))

    async def answer(self, request: Request, client: ConnectedClient) -> Message:
        """Passes the request on, and returns the controller's answer; an error is in the answer, too.

        REQUEST_TIMED_OUT if there is none in the request's `timeout_ms` (30 s without one, 120 s at most): it may have
        been carried out all the same, and is sent again if a connection breaks. Of one connection one request after the
        other is passed on, as by Kafka's brokers.
        """
        version = request.header.request_api_version
        timeout_ms = min(getattr(request.message, "timeout_ms", 0) or TIMEOUT_MS, TIMEOUT_MS_MAX)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                async with self._order.turn((client.listener, client.host, client.port), writes=True):
                    return await self._answered(request, client)
        except TimeoutError:
            why = f"no controller has answered {request.api.name} in {timeout_ms} ms"
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
        """Asks until the active controller has answered. Raises ApiError for the envelope's own error.

        A request that was under way to one that is gone may have been carried out, and is sent again, as by Kafka's
        brokers.
        """
        assert self._connection is not None, "nothing is served without it"
        envelope = _envelope(request, client)
        while True:
            for _ in range(self._connection.whereabouts.count):
                try:
                    return _opened(request, await self._connection.ask(EnvelopeResponse, envelope))
                except NoAnswer:
                    continue
            await asyncio.sleep(PAUSE_S)


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
        log.warning("an envelope is refused", api=request.api.name, code=code.name)
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the envelope was refused: {code.name}")
    version = request.header.request_api_version
    try:
        _, position = decode_response_header(request.api, version, answer.response_data)
        return decode_body(request.api.response, answer.response_data, position, version)
    except ProtocolError as problem:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's answer is not Kafka's: {problem}") from None
