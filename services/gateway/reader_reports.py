"""Tells the quorum node how far the readers are whom this gateway answers from the end of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kraft.service.quorum_pb2 import ReportReadersRequest
from quorate.errors import ApiError
from quorate.nouns import Epoch, NodeId, Offset, uuid_text
from quorate.runtime.clients.client import call
from quorate.runtime.logging.logs import logger
from services.gateway.reader_fetches import Report

__all__ = ["reporting_to"]

log = logger(__name__)

DEADLINE_MS: Final = 500
"""How long the node has to take a report; then their fetches go on to it, and it tells itself what is the matter."""


def reporting_to(node: Any) -> Report:
    """Returns the function that reports readers' fetch offsets to the quorum node with this stub (ReportReaders).

    It returns False if the node has not noted all of them, refuses, or does not answer; it raises nothing.
    """

    async def report(epoch: Epoch, readers: Sequence[tuple[NodeId, bytes, Offset]]) -> bool:
        request = ReportReadersRequest(
            leader_epoch=epoch,
            replica_ids=[node_id for node_id, _, _ in readers],
            directory_ids=[uuid_text(directory_id) for _, directory_id, _ in readers],
            fetch_offsets=[offset for _, _, offset in readers],
        )
        try:
            answer = await call(node.ReportReaders, request, deadline_ms=DEADLINE_MS)
        except ApiError as refusal:
            log.debug("the node has not taken how far readers are", reason=str(refusal))
            return False
        return bool(answer.all_noted)

    return report
