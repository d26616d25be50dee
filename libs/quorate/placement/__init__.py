"""Replica placement: chooses the brokers of new partitions; a pure function, with randomness as an argument.

spec      the request, the usable brokers, and the checks
racks     the usable brokers by rack, sorted once per broker set
striped   Kafka's placement: replicas in stripes over the racks
"""

from quorate.placement.racks import Rack, Racks
from quorate.placement.spec import (
    PARTITIONS_MAX,
    REPLICAS_MAX,
    REQUEST_MAX,
    PlacementSpec,
    Random,
    Replicas,
    UsableBroker,
    check_size,
)
from quorate.placement.striped import place

__all__ = [
    "PARTITIONS_MAX",
    "REPLICAS_MAX",
    "REQUEST_MAX",
    "PlacementSpec",
    "Rack",
    "Racks",
    "Random",
    "Replicas",
    "UsableBroker",
    "check_size",
    "place",
]
