"""The metrics of the heartbeat service, each with its Kafka name where there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quorate.runtime.telemetry.metric_rows import Row, declare, one
from quorate.runtime.telemetry.metrics import Value
from services.heartbeat.driver import HeartbeatDriver

CONTROLLER: Final = "kafka.controller:type=KafkaController,name="


def _since_heartbeat(driver: HeartbeatDriver) -> Iterable[Value]:
    now_ms = driver.now_ms
    for broker_id, contact in driver.sessions.contacts.items():
        yield (now_ms - contact.at_ms) / 1000, {"kraft.broker.id": broker_id}


ROWS: Final = (
    Row[HeartbeatDriver](
        name="kraft.heartbeat.silence",
        kind="gauge",
        unit="s",
        help="How long ago a registered broker was last heard of, by broker.",
        kafka=(CONTROLLER + "TimeSinceLastHeartbeatReceivedMs",),
        read=_since_heartbeat,
    ),
    Row[HeartbeatDriver](
        name="kraft.heartbeat.sessions",
        kind="gauge",
        unit="{broker}",
        help="Brokers that must be heard of: those that are not fenced.",
        read=one(lambda driver: len(driver.sessions.watched)),
    ),
)
"""All metrics of the heartbeat service."""

watch = declare(ROWS)
"""Binds the metrics to a driver, whose values are read at each export."""
