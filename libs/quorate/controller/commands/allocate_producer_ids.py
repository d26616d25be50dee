"""AllocateProducerIds (67): gives a broker a block of unused producer ids. KIP-730."""

from __future__ import annotations

from typing import Final

from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.registrations import registered
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import ProducerIdsRecord

__all__ = ["BLOCK_SIZE", "allocate_producer_ids"]

BLOCK_SIZE: Final = 1_000
LAST_PRODUCER_ID: Final = (1 << 63) - 1
assert 0 < BLOCK_SIZE < LAST_PRODUCER_ID, BLOCK_SIZE


def allocate_producer_ids(request: AllocateProducerIdsRequest) -> Command[AllocateProducerIdsResponse]:
    """Returns the command that gives the broker of `request` the next `BLOCK_SIZE` producer ids.

    The command raises ApiError: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if no block is left.
    """

    def command(state: ClusterState, _: Moment) -> Decision[AllocateProducerIdsResponse]:
        broker = registered(state, request.broker_id, request.broker_epoch)
        first = state.producer_ids.next_producer_id
        if first > LAST_PRODUCER_ID - BLOCK_SIZE:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the next producer id is {first}; a block of {BLOCK_SIZE} would pass {LAST_PRODUCER_ID}",
            )
        record = ProducerIdsRecord(broker.id, broker.epoch, first + BLOCK_SIZE)
        response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
        end = response.producer_id_start + response.producer_id_len
        assert end == record.next_producer_id, (response, record)  # I-44
        return Decision(response, (record,))

    return command
