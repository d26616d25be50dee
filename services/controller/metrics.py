"""The metrics of a controller, each with its Kafka name; `cluster_metrics` declares those of the cluster's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from quorate.controller.engine.engine import Engine
from quorate.runtime.telemetry.metric_rows import Row, declare, one
from quorate.runtime.telemetry.metrics import histogram

CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
QUEUE: Final = "kafka.controller:type=ControllerEventManager,name="


class Watched(Protocol):
    """The object that the controller metrics are read from; the driver implements it."""

    leaders_heard: int
    engine: Engine

    @property
    def is_active(self) -> bool:
        """Whether this controller is the active one."""


@dataclass(slots=True)
class IsrUpdates:
    """Counts of partitions since this process started: ISRs that grew, ISRs that shrank, updates with an error."""

    expands: int = 0
    shrinks: int = 0
    failed: int = 0


ROWS: Final = (
    Row[Watched](
        name="kraft.controller.active",
        kind="gauge",
        unit="1",
        help="1 on the active controller, else 0.",
        kafka=(CONTROLLER + "ActiveControllerCount",),
        read=one(lambda driver: int(driver.is_active)),
    ),
    Row[Watched](
        name="kraft.controller.elections",
        kind="counter",
        unit="{election}",
        help="How often this controller has heard who is active now; the same one again counts.",
        kafka=(CONTROLLER + "NewActiveControllersCount",),
        read=one(lambda driver: driver.leaders_heard),
    ),
    Row[Watched](
        name="kraft.controller.metadata.errors",
        kind="counter",
        unit="{error}",
        help="Failures of the controller's own that count, by the table in quorate.controller.engine. KIP-859.",
        kafka=(CONTROLLER + "MetadataErrorCount",),
        read=one(lambda driver: driver.engine.metadata_error_count),
    ),
    Row[Watched](
        name="kraft.controller.queue.duration",
        kind="histogram",
        unit="s",
        help="From the arrival of a request at the active controller until its decision begins.",
        kafka=(QUEUE + "EventQueueTimeMs",),
    ),
    Row[Watched](
        name="kraft.controller.decision.duration",
        kind="histogram",
        unit="s",
        help="A decision, and its records applied and encoded: nothing else is done meanwhile.",
        kafka=(QUEUE + "EventQueueProcessingTimeMs",),
    ),
)
ISR_ROWS: Final = (
    Row[IsrUpdates](
        name="kraft.controller.isr.expands",
        kind="counter",
        unit="{partition}",
        help="ISRs that grew by AlterPartition, of all leaders of the cluster; in Kafka each broker counts its own.",
        kafka=(REPLICAS + "IsrExpandsPerSec",),
        read=one(lambda updates: updates.expands),
    ),
    Row[IsrUpdates](
        name="kraft.controller.isr.shrinks",
        kind="counter",
        unit="{partition}",
        help="ISRs that shrank by AlterPartition, likewise; not those that a broker left because it was fenced.",
        kafka=(REPLICAS + "IsrShrinksPerSec",),
        read=one(lambda updates: updates.shrinks),
    ),
    Row[IsrUpdates](
        name="kraft.controller.isr.failed_updates",
        kind="counter",
        unit="{partition}",
        help="Partitions whose AlterPartition was answered with an error, likewise.",
        kafka=(REPLICAS + "FailedIsrUpdatesPerSec",),
        read=one(lambda updates: updates.failed),
    ),
)
"""The metrics of ISR updates, counted from AlterPartition requests. Metrics are declared only in this module."""

ABSENT: Final = {
    "AvgIdleRatio": "Of the thread of Kafka's event queue; ours is an event loop.",
    "BrokerRegistrationState": "A gauge for each broker; kraft.brokers has the sums, DescribeCluster the brokers.",
    "ElectionFromEligibleLeaderReplicasPerSec": "Elections are not counted; the pipeline's tables have each of them.",
    "EventQueueOperationsStartedCount": "The count of kraft.controller.decision.duration.",
    "EventQueueOperationsTimedOutCount": "Such requests are answered with REQUEST_TIMED_OUT, and not counted.",
    "TimedOutBrokerHeartbeatCount": "Heartbeats wait in no queue of the controller's.",
    "UncleanLeaderElectionsPerSec": "As for elections from the ELR.",
}
"""Kafka's controller metrics that this service does not have, each with the reason."""

_kafka = [name.rpartition("=")[2] for row in (*ROWS, *ISR_ROWS) for name in row.kafka]
assert len(set(_kafka)) == len(_kafka), _kafka
assert ABSENT.keys().isdisjoint(_kafka), ABSENT.keys() & set(_kafka)

watch = declare(ROWS)
"""Binds the controller metrics to a driver, whose values are read at each export."""
watch_isr_updates = declare(ISR_ROWS)
QUEUE_TIME, DECISION_TIME = (histogram(row.name, row.unit, row.help) for row in ROWS if row.kind == "histogram")
