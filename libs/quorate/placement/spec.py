"""The input of a placement: the requested partitions, the usable brokers, a source of randomness; and its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NodeId

T = TypeVar("T")

PARTITIONS_MAX: Final = 10_000
"""Most partitions of one topic, as Kafka's ReplicationControlManager.MAX_PARTITIONS_PER_BATCH."""
REPLICAS_MAX: Final = 100_000
"""Most replicas of one topic, all partitions together."""
REQUEST_MAX: Final = 2 * REPLICAS_MAX
"""Most replicas that one request places, and most topics in it: a controller sends another topic with 100,000."""

Replicas: TypeAlias = tuple[NodeId, ...]
"""The brokers of one partition in order of preference; the first is the preferred leader."""


class Random(Protocol):
    """A source of randomness, such as `random.Random`. The same seed gives the same placement."""

    def randrange(self, stop: int, /) -> int:
        """Returns a number from 0 (inclusive) to `stop` (exclusive)."""

    def shuffle(self, x: list[T], /) -> None:
        """Shuffles `x` in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableBroker:
    """A broker that may get replicas: registered, and not in controlled shutdown.

    `rack` is None for a broker without a rack; all such brokers count as one more rack. A fenced broker comes after the
    unfenced ones of its rack and is never a first replica.
    """

    id: NodeId
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSpec:
    """The partitions of one topic to place, all with the same replication factor.

    `start_partition` is the id of the first: 0 for a new topic, the present count when partitions are added. It numbers
    the partitions and does not influence the placement.
    """

    start_partition: int = 0
    partition_count: int
    replication_factor: int

    @property
    def partition_ids(self) -> range:
        """The partition ids, in the order of the placement."""
        return range(self.start_partition, self.start_partition + self.partition_count)

    def check(self, *, unfenced_count: int, fenced_count: int) -> None:
        """Checks that the partitions can be placed on so many usable brokers.

        Raises ApiError: INVALID_PARTITIONS for an invalid range of partitions; INVALID_REPLICATION_FACTOR for a factor
        below one or above the number of brokers, or if no broker is unfenced.
        """
        if self.start_partition < 0 or self.partition_count < 1:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"{self.partition_count} partitions from id {self.start_partition} on cannot be placed: "
                "there must be at least one partition, and ids start at 0",
            )
        if self.replication_factor < 1:
            raise _too_few(
                f"a replication factor of {self.replication_factor} is not possible: it must be at least 1",
                replication_factor=self.replication_factor,
            )
        broker_count = unfenced_count + fenced_count
        if self.replication_factor > broker_count:
            raise _too_few(
                f"a replication factor of {self.replication_factor} needs as many brokers, "
                f"but only {broker_count} can be used",
                replication_factor=self.replication_factor,
                broker_count=broker_count,
            )
        if unfenced_count == 0:
            raise _too_few(
                f"all {broker_count} usable brokers are fenced, and a partition's first replica must not be",
                replication_factor=self.replication_factor,
                broker_count=broker_count,
            )


def _too_few(message: str, **counts: int) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message, {name: str(n) for name, n in counts.items()})


def check_size(spec: PlacementSpec, room: int) -> None:
    """Raises ApiError(POLICY_VIOLATION) for a topic that is too large to be placed.

    It has more than `PARTITIONS_MAX` partitions or `REPLICAS_MAX` replicas, or more than the `room` replicas that its
    request may still have.
    """
    count, replicas = spec.partition_count, spec.partition_count * spec.replication_factor
    if count > PARTITIONS_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"{count} partitions; at most {PARTITIONS_MAX} of a topic are placed"
        )
    if replicas > REPLICAS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"{replicas} replicas; at most {REPLICAS_MAX} of a topic are placed")
    if replicas > room:
        message = (
            f"{replicas} replicas; a request places at most {REQUEST_MAX}, and the topics before have all but {room}"
        )
        raise ApiError(ErrorCode.POLICY_VIOLATION, message)
