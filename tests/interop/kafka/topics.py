"""Kafka's own Admin clients in one JVM, many at once: how long each topic takes that they create."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from deploy.kafka import release
from deploy.kafka.release import SERVER
from tests.interop.kafka.jvm import AnsweringJvm
from tests.interop.kafka.release import compiled

PROGRAM: Final = Path(__file__).with_name("Topics.java")


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """Seconds until all were there, and of each topic until its client had the answer."""

    names: tuple[str, ...]
    seconds: float
    took: tuple[float, ...]


class Topics(AnsweringJvm):
    """So many Admin clients of the cluster with these bootstrap servers."""

    def __init__(self, servers: str, *, clients: int, replicas: int) -> None:
        classes = (compiled(PROGRAM),)
        super().__init__(release.java("Topics", servers, clients, replicas, classes=classes, options=SERVER))
        self._numbers = count()

    async def create(self, topics: int = 1, *, partitions: int = 1, at_once: int = 1, prefix: str = "asked") -> Created:
        """So many topics, `at_once` under way, each by a request of its own."""
        names = tuple(f"{prefix}-{next(self._numbers)}" for _ in range(topics))
        asked = {"names": names, "partitions": partitions, "atOnce": at_once}
        answer = await asyncio.to_thread(self.ask, asked)
        return Created(names=names, seconds=answer["seconds"], took=tuple(answer["took"]))
