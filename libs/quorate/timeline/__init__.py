"""Collections with undo: the present is a plain dict, and each snapshot keeps only the values overwritten since then.

registry      the snapshots by offset: create, revert to one, forget old ones
collections   TimelineDict, TimelineValue

>>> registry = SnapshotRegistry()
>>> leaders: TimelineDict[str, int] = TimelineDict(registry)
>>> leaders["orders-0"] = 1
>>> registry.create(10)
>>> leaders["orders-0"] = 2
>>> leaders["orders-0"], leaders.at(10)["orders-0"]
(2, 1)
>>> registry.revert_to(10)
>>> leaders["orders-0"]
1
"""

from quorate.timeline.collections import TimelineDict, TimelineValue
from quorate.timeline.registry import SnapshotRegistry

__all__ = ["SnapshotRegistry", "TimelineDict", "TimelineValue"]
