"""What a seed's cluster is like, and what is done to its brokers and controllers (S-25): about half of it is off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from tests.sim.faults import MEMBERSHIP, MIXED, SNAPSHOTS, STORAGE, Plan
from tests.sim_controller import failing

PROFILES: Final = (MIXED, SNAPSHOTS, MEMBERSHIP, STORAGE)
WEIGHTS: Final = (50, 25, 15, 10)

ROWS: Final = (
    "C-01 heartbeats missed",
    "C-02 unclean stop",
    "C-03 controlled shutdown",
    "C-04 directory offline",
    "C-04 replica without a directory",
    "C-05 new incarnation while the old one lives",
    "C-06 broker paused",
    "C-07 heartbeat service restarts",
    "C-08 controller cut off from its quorum node",
    "C-09 controller restarts alone",
    "C-10 transaction left open",
    "C-11 request repeated",
    "C-12 stale AlterPartition",
    *failing.ROWS,
)


SLOWER: Final = ("crash_every_ms", "pause_every_ms", "cut_every_ms", "one_way_every_ms", "partial_every_ms")


def milder(plan: Plan) -> Plan:
    """Where hardly anything is committed, brokers show little: the quorum's faults come at half the rate."""
    changes: dict[str, Any] = {name: 2 * getattr(plan, name) for name in SLOWER}
    return replace(
        plan,
        **changes,
        request_loss=plan.request_loss / 3,
        reply_loss=plan.reply_loss / 3,
        delay_mean_ms=min(plan.delay_mean_ms, 40),
        cut_ms=min(plan.cut_ms, 1_500),
        pause_ms=min(plan.pause_ms, 4_000),
        reset=plan.reset / 3,
        flush_ms=min(plan.flush_ms, 10),
    )


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """An interval of 0 ms, or a chance of 0, turns a thing off."""

    profile: str
    broker_count: int
    racks: int
    level: int
    has_elr: bool
    min_isr: str
    unclean: bool
    """Is unclean election on for the whole cluster?"""
    session_ms: int
    admin_every_ms: int
    read_every_ms: int
    isr_every_ms: int
    missed: float
    stop_every_ms: int
    shutdown_every_ms: int
    directory_every_ms: int
    twin_every_ms: int
    pause_every_ms: int
    tracker_every_ms: int
    cut_off_every_ms: int
    restart_every_ms: int
    transaction_every_ms: int
    repeat: float
    stale: float
    preferred_every_ms: int
    stream_ms: int
    full: float
    fail_every_ms: int

    @classmethod
    def drawn(cls, seed: int, profile: str | None = None) -> ClusterPlan:
        random = Random(f"{seed}/cluster")
        drawn = random.choices(PROFILES, WEIGHTS)[0]

        def every(low_ms: int, high_ms: int, likely: float = 0.5) -> int:
            return random.randrange(low_ms, high_ms) if random.random() < likely else 0

        has_elr = random.random() < 0.7
        return cls(
            profile=profile or drawn,
            broker_count=random.choice([3, 3, 4, 5]),
            racks=random.choice([1, 1, 2, 3]),
            level=random.choice([23, 25, 28, 33]) if has_elr else random.choice([7, 11, 14, 17, 23, 25, 33]),
            has_elr=has_elr,
            min_isr=random.choice(["1", "2", "2", "3"]),
            unclean=random.random() < 0.25,
            session_ms=random.choice([1_500, 3_000]),
            admin_every_ms=random.choice([30, 80]),
            read_every_ms=random.choice([100, 300]),
            isr_every_ms=random.choice([40, 100]),
            missed=random.choice([0.0, 0.0, 0.1, 0.5]),
            stop_every_ms=every(1_000, 5_000, 0.7),
            shutdown_every_ms=every(1_500, 6_000, 0.7),
            directory_every_ms=every(1_500, 8_000),
            twin_every_ms=every(3_000, 10_000, 0.3),
            pause_every_ms=every(1_500, 6_000),
            tracker_every_ms=every(3_000, 12_000),
            cut_off_every_ms=every(1_500, 8_000),
            restart_every_ms=every(2_000, 8_000),
            transaction_every_ms=every(1_500, 6_000),
            repeat=random.choice([0.0, 0.6]),
            stale=random.choice([0.05, 0.3]),
            preferred_every_ms=random.choice([1_000, 3_000]),
            stream_ms=random.choice([0, 2, 10, 60]),
            full=random.choice([0.0, 0.0, 0.02]),
            fail_every_ms=every(2_000, 8_000, 0.3),
        )
