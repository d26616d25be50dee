"""The metrics of a placer. Kafka has no such service, so they have no Kafka names."""

from __future__ import annotations

from typing import Final

from quorate.runtime.telemetry.metrics import counter

PLACED: Final = counter("kraft.placer.partitions", "{partition}", "Partitions that were given replicas.")
REFUSED: Final = counter("kraft.placer.refused", "{topic}", "Topics that could not be placed.")
