"""What the script calls its brokers, directories and processes: chosen here, so equal on both sides."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from kraft import Uuid
from quorate.nouns import NodeId

CLUSTER_ID: Final = "n3Vb0q7mSlW8cYkXe2RtZw"
BROKERS: Final[tuple[NodeId, ...]] = (101, 102, 103, 104)
RACKS: Final = {101: "a", 102: "b", 103: "c", 104: "a"}


def id_named(name: str) -> Uuid:
    """An id that is random enough, and the same every time."""
    return Uuid(sha256(name.encode()).digest()[:16])


UNKNOWN_TOPIC_ID: Final = id_named("a topic that nobody has created")


def directory(broker_id: NodeId, number: int = 0) -> Uuid:
    """One of a broker's log directories."""
    return id_named(f"directory {number} of broker {broker_id}")


def incarnation(broker_id: NodeId, number: int = 0) -> Uuid:
    """One of a broker's processes."""
    return id_named(f"process {number} of broker {broker_id}")
