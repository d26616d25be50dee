"""What a seed's cluster is like beside its quorum, and what is done to it: about half of that is off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

KIB: Final = 1024


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """An interval of 0 ms, or a share of 0, turns a thing off."""

    brokers: int
    admins: int
    admin_every_ms: int
    session_ms: int
    silent_permille: int
    broker_every_ms: int
    tracker_every_ms: int
    controller_every_ms: int
    fuse_every_ms: int
    part_every_ms: int
    cut_every_ms: int
    snapshot_bytes: int
    snapshot_ms: int
    intervals_ms: dict[str, int]
    slow_beside_ms: int
    """How long a message between a node and its controller may take: what was asked for is then answered too late."""
    twin_every_ms: int = 0
    absence_every_ms: int = 0
    """How often the heartbeat service is stopped for a while, or its door is closed to all brokers."""
    read_share: int = 4
    """How many reads an operator asks for, where it asks for seven changes."""

    @classmethod
    def drawn(cls, random: Random) -> ClusterPlan:
        """By chance."""

        def half(*values: int) -> int:
            return random.choice(values) if random.randrange(2) else 0

        return cls(
            brokers=random.choice((1, 2, 3)),
            admins=random.choice((1, 2, 3)),
            admin_every_ms=random.choice((30, 80)),
            session_ms=random.choice((800, 1_500)),
            silent_permille=half(20, 100),
            broker_every_ms=half(1_500, 3_000),
            tracker_every_ms=half(2_000, 4_000),
            controller_every_ms=half(1_500, 3_000),
            fuse_every_ms=half(1_000, 2_000),
            part_every_ms=half(1_000, 2_000),
            cut_every_ms=half(1_500, 3_000),
            snapshot_bytes=random.choice((2 * KIB, 8 * KIB, 1 << 30)),
            snapshot_ms=half(1_000),
            intervals_ms={"metadata.max.idle.interval.ms": random.choice((50, 200, 500))},
            slow_beside_ms=half(20, 60),
            twin_every_ms=half(1_000),
            absence_every_ms=half(1_500, 3_000),
        )

    @classmethod
    def undisturbed(cls, random: Random) -> ClusterPlan:
        """By chance, but nothing is done to it. Some write seldom: a controller that has nothing under way answers."""
        idle_ms = random.choice((200, 10_000))
        return replace(
            cls.drawn(random),
            broker_every_ms=0,
            tracker_every_ms=0,
            controller_every_ms=0,
            fuse_every_ms=0,
            part_every_ms=0,
            cut_every_ms=0,
            twin_every_ms=0,
            absence_every_ms=0,
            intervals_ms={"metadata.max.idle.interval.ms": idle_ms},
            read_share=4 if idle_ms == 200 else 40,
        )

    @classmethod
    def doubled(cls, random: Random) -> ClusterPlan:
        """With a second heartbeat service: whatever befalls brokers and controllers, and longer sessions."""
        drawn = cls.drawn(random)
        return replace(
            cls.undisturbed(random),
            brokers=random.choice((2, 3)),
            session_ms=2 * drawn.session_ms,
            broker_every_ms=drawn.broker_every_ms,
            controller_every_ms=2 * drawn.controller_every_ms,
            part_every_ms=2 * drawn.part_every_ms,
            twin_every_ms=drawn.twin_every_ms,
        )
