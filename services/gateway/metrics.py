"""The metrics of a gateway, each with its Kafka name where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from quorate.runtime.telemetry.metric_rows import Row, declare
from quorate.runtime.telemetry.metrics import counter, histogram

REQUEST: Final = "kafka.network:type=RequestMetrics,name="


class Listener(Protocol):
    """A server of Kafka's wire, as far as the metric of its connections asks."""

    def __len__(self) -> int:
        """How many are open."""


TIME: Final = histogram(
    "kraft.gateway.request.duration", "s", "How long a request took, from its decoding to its answer, by API."
)
ERRORS: Final = counter("kraft.gateway.errors", "{error}", "Requests that were refused as a whole, by API and error.")
FETCHES: Final = counter(
    "kraft.gateway.fetches.answered",
    "{fetch}",
    "Fetches of the log's readers that the gateway answered itself, from the end of the log that it has.",
)

ROWS: Final = (
    Row[Mapping[str, Listener]](
        name="kraft.gateway.connections",
        kind="gauge",
        unit="{connection}",
        help="Connections that are open, by listener.",
        kafka=("kafka.server:type=socket-server-metrics,name=connection-count",),
        read=lambda listeners: [(len(each), {"kraft.listener": name}) for name, each in listeners.items()],
    ),
)
"""The metrics that are read from the listeners."""

watch = declare(ROWS)
"""Binds them to the listeners by name, whose values are read at each export."""
