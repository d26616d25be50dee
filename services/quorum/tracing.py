"""Trace spans of a quorum node: one `append` span for each traced batch that it has written and flushed."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.errors import Corrupt
from quorate.records import UnknownRecord, decode_record, trace_of
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.wire.batch import data_values, read_header


class AppendTracer:
    """Records spans of a node's log writes, each under the trace context in its batch's first record.

    It does nothing while telemetry is off.
    """

    def __init__(self, telemetry: Telemetry, *, node_id: int) -> None:
        self._telemetry = telemetry
        self._node_id = node_id

    def flushed(self, appended: Sequence[bytes], *, start_ns: int, end_ns: int) -> None:
        """Records an `append` span for each flushed data batch that has a trace context; times in ns since 1970."""
        if not self._telemetry.enabled:
            return
        for data in appended:
            header = read_header(data)
            context = None if header.is_control else trace_of_batch(data)
            if context is not None:
                self._telemetry.span_from(
                    context,
                    "append",
                    start_ns=start_ns,
                    end_ns=end_ns,
                    attributes={
                        "kraft.node.id": self._node_id,
                        "kraft.epoch": header.epoch,
                        "kraft.base_offset": header.base_offset,
                        "kraft.record_count": header.count,
                    },
                )


def trace_of_batch(data: bytes) -> bytes | None:
    """Returns the trace context in the first record of a data batch; None if it has none or cannot be decoded."""
    first = next(iter(data_values(data)), None)
    if first is None:
        return None
    try:
        record = decode_record(bytes(first))
    except Corrupt:
        return None
    return None if isinstance(record, UnknownRecord) else trace_of(record)
