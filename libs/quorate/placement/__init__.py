"""Which brokers get a new partition's replicas: a pure function, with chance as an argument.

spec      what is asked, what is usable, and what is refused
racks     the usable brokers by rack, sorted once for a broker set
striped   Kafka's placement: replicas in stripes across the racks
"""

from quorate.placement.racks import Rack, Racks
from quorate.placement.spec import PlacementSpec, Random, Replicas, UsableBroker
from quorate.placement.striped import place

__all__ = ["PlacementSpec", "Rack", "Racks", "Random", "Replicas", "UsableBroker", "place"]
