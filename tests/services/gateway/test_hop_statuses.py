"""What a controller says of a call of its own that failed is an answer, and no end of its connection."""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from kraft.api.elect_leaders import ElectLeadersRequest
from quorate.errors import ErrorCode
from quorate.runtime.requests.statuses import DOMAIN
from tests.services.gateway.test_handler import Services, gateway


async def test_what_a_controller_says_of_a_hop_that_is_gone_cuts_no_connection() -> None:
    """As those of earlier releases say it: with the hop's gRPC status among the variables of their own error."""
    told, of_hop, services = Status(), {"without_details": "true"}, Services(ElectLeaders=grpc.StatusCode.UNAVAILABLE)
    told.details.add().Pack(ErrorInfo(reason="NETWORK_EXCEPTION", domain=DOMAIN, metadata=of_hop))
    services.trailing = (("grpc-status-details-bin", told.SerializeToString()),)
    async with gateway(services) as client:
        answers: list[Any] = [await client.ask(ElectLeadersRequest()) for _ in range(2)]

    assert [ErrorCode.NETWORK_EXCEPTION] * 2 == [each.error_code for each in answers]
