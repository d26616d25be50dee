"""The fault rows: what a seed turns on, and how bad it is. About half of them are off in any seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

MIXED, MEMBERSHIP, STORAGE, SNAPSHOTS, SMALL, BRIDGE, REJOIN = PROFILES = (
    "mixed",
    "membership",
    "storage",
    "snapshots",
    "small",
    "bridge",
    "rejoin",
)
WEIGHTS: Final = (40, 25, 12, 10, 5, 4, 4)
KAFKA: Final = "kafka"
"""Some of the voters do as Kafka's controllers do. It is never drawn: it has seeds of its own."""

ROWS: Final = (*(f"S-{number:02d}" for number in range(1, 28) if number != 25), "S-40", "S-41", "S-42", "S-45")
"""S-25, broker faults, is not here: brokers belong to the controller's simulation."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One seed's parameters. A chance is a number in [0, 1); 0 turns the row off, as an interval of 0 ms does."""

    profile: str
    # S-01 … S-09: the wire.
    request_loss: float = 0.0
    reply_loss: float = 0.0
    duplicate: float = 0.0
    delay_min_ms: int = 1
    delay_mean_ms: int = 2
    tail: float = 0.0
    clog: float = 0.0
    clog_ms: int = 1_000
    cut_every_ms: int = 0
    one_way_every_ms: int = 0
    partial_every_ms: int = 0
    cut_ms: int = 3_000
    reset: float = 0.0
    garble: float = 0.0
    # S-10 … S-14: processes and clocks.
    crash_a_step: float = 0.0
    crash_every_ms: int = 0
    power_cuts: int = 0
    pause_every_ms: int = 0
    pause_ms: int = 1_000
    clock_rates: tuple[int, int] = (1000, 1000)
    wall_step: bool = False
    # S-15 … S-22: disks.
    lossy_crash: float = 0.0
    fsync_error: float = 0.0
    full_every_ms: int = 0
    short_write: float = 0.0
    read_error: float = 0.0
    rot_every_ms: int = 0
    misdirected: float = 0.0
    wipe_every_ms: int = 0
    flush_ms: int = 2
    stall: float = 0.0
    # S-23, S-24.
    admin_every_ms: int = 0
    auto_join: bool = False
    snapshot_every_ms: int = 0
    fetch_max_bytes: int = 1 << 16
    chunk_bytes: int = 4096
    # S-26, S-27.
    group_turns: float = 0.0
    shuffle: float = 0.0
    resign_every_ms: int = 0
    early_tick: float = 0.0
    odd_levels: float = 0.0
    append_room: int = 1_000
    listed_max: int = 10_000
    no_deadline: float = 0.0
    # S-40, S-41.
    stranger_every_ms: int = 0
    claim_every_ms: int = 0
    # S-45.
    absence_every_ms: int = 0

    @classmethod
    def drawn(cls, seed: int, profile: str | None = None) -> Plan:
        """Swarm style: each row is on in about half of the seeds, then with its own strength."""
        random = Random(f"{seed}/plan")
        drawn = random.choices(PROFILES, WEIGHTS)[0]
        profile = profile or drawn
        if profile in (BRIDGE, REJOIN):  # they ask for one thing only: nothing else may disturb it
            return cls(profile=profile, delay_mean_ms=random.choice([2, 10, 30]))
        plan = _Draw(random, profile).plan()
        if profile == KAFKA:
            return replace(plan, rot_every_ms=0, misdirected=0.0)  # a Kafka voter cuts its log at what has rotted
        return plan


@dataclass(frozen=True)
class _Draw:
    random: Random
    profile: str

    def some(self, value: float, *, likely_in: str = "") -> float:
        is_on = self.random.random() < (0.9 if likely_in == self.profile else 0.5)
        return value * (0.05 + 0.95 * self.random.random()) if is_on else 0.0

    def every(self, low_ms: int, high_ms: int, *, likely_in: str = "") -> int:
        is_on = self.random.random() < (0.9 if likely_in == self.profile else 0.5)
        return self.random.randrange(low_ms, high_ms) if is_on else 0

    def pick(self, default: int, *others: int) -> int:
        return self.random.choice(others) if self.random.random() < 0.5 else default

    def plan(self) -> Plan:
        random, is_membership = self.random, self.profile == MEMBERSHIP
        return Plan(
            profile=self.profile,
            request_loss=self.some(0.3) * random.random(),
            reply_loss=self.some(0.3) * random.random(),
            duplicate=self.some(0.5),
            delay_min_ms=self.pick(1, 5, 20),
            delay_mean_ms=self.pick(2, 10, 40, 120),
            tail=self.some(0.01),
            clog=self.some(0.02),
            clog_ms=random.randrange(100, 5_000),
            cut_every_ms=self.every(2_000, 9_000),
            one_way_every_ms=self.every(3_000, 10_000),
            partial_every_ms=self.every(3_000, 10_000),
            cut_ms=random.choice([500, 1_500, 4_000]),
            reset=self.some(0.05),
            garble=self.some(0.001),
            crash_a_step=self.some(0.01) ** 2 * 30,
            crash_every_ms=self.every(2_500, 8_000),
            power_cuts=self.pick(0, 1, 2, 3),
            pause_every_ms=self.every(2_500, 9_000),
            pause_ms=random.choice([100, 1_000, 4_000, 10_000]),
            clock_rates=random.choice([(500, 2000), (900, 1100)]) if random.random() < 0.5 else (1000, 1000),
            wall_step=random.random() < 0.5,
            lossy_crash=0.9 if random.random() < 0.6 else 0.0,
            fsync_error=self.some(0.002, likely_in=STORAGE),
            full_every_ms=self.every(4_000, 12_000, likely_in=STORAGE),
            short_write=self.some(0.002, likely_in=STORAGE),
            read_error=self.some(0.01, likely_in=STORAGE),
            rot_every_ms=self.every(2_000, 6_000, likely_in=STORAGE),
            misdirected=self.some(0.5),
            wipe_every_ms=self.every(3_000, 10_000) if is_membership else 0,
            flush_ms=self.pick(2, 0, 10, 100),
            stall=self.some(0.003),
            admin_every_ms=random.randrange(200, 1_200) if is_membership else 0,
            auto_join=is_membership and random.random() < 0.3,
            snapshot_every_ms=self.every(200, 3_000, likely_in=SNAPSHOTS),
            fetch_max_bytes=self.pick(1 << 16, 1, 200, 1_000),
            chunk_bytes=self.pick(4096, 10, 60, 200),
            group_turns=self.some(0.5),
            shuffle=self.some(0.5),
            resign_every_ms=self.every(2_000, 10_000),
            early_tick=self.some(0.05),
            odd_levels=0.3 if random.random() < 0.2 else 0.0,
            append_room=self.pick(1_000, 1, 3),
            listed_max=self.pick(10_000, 1, 2),
            no_deadline=self.some(0.1),
            stranger_every_ms=self.every(2_000, 9_000),
            absence_every_ms=self.every(500, 6_000),
            claim_every_ms=self.every(500, 3_000),
        )
