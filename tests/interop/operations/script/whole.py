"""The script from its first step to its last."""

from __future__ import annotations

from typing import Final

from tests.interop.operations.script import access, brokers, cluster, configs, liveness, partitions, topics
from tests.interop.operations.step import Ask, Step

SCRIPT: Final[tuple[Step, ...]] = (
    *brokers.SCRIPT,
    *topics.SCRIPT,
    *partitions.SCRIPT,
    *liveness.SCRIPT,
    *configs.SCRIPT,
    *access.SCRIPT,
    *cluster.SCRIPT,
)
ASKED: Final[tuple[Ask, ...]] = tuple(step for step in SCRIPT if isinstance(step, Ask))
