"""The `apply` span of a replica: hung on the context that the batch's first record carries."""

from __future__ import annotations

from kraft import Message
from quorate.records import trace_of
from quorate.runtime.telemetry import Telemetry
from quorate.wire.batch import BatchHeader


def applied(
    telemetry: Telemetry, first: Message, header: BatchHeader, *, node_id: int, start_ns: int, end_ns: int
) -> None:
    """This replica has applied the batch, from decoding it on; nothing is written down for an untraced one."""
    telemetry.span_from(
        trace_of(first),
        "apply",
        start_ns=start_ns,
        end_ns=end_ns,
        attributes={
            "kraft.node.id": node_id,
            "kraft.epoch": header.epoch,
            "kraft.offset": header.base_offset,
            "kraft.record_count": header.count,
        },
    )
