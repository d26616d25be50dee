"""The rows of a report as they are read from the tables of an incident, without Spark: two brokers of a rack fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.pipeline.logs import NOON_MS

if TYPE_CHECKING:
    from pyspark.sql import Row

    from services.pipeline.report.cluster import Drawn
    from services.pipeline.report.incident import Incident
    from services.pipeline.report.latency import Latency
    from services.pipeline.report.page import Answers

MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
LONG: Final = "telemetry.device-events." + "partitioned-by-region." * 10
"""A topic's name nearly as long as Kafka allows (249), of which no part is a word's end."""
EVIL: Final = "<img src=x onerror=alert(1)>"
NAMES: Final = {3: LONG, 6: EVIL}
END_MS: Final = NOON_MS + 90 * MINUTE_MS
CLUSTERS: Final = ("Xo3rWmB0Q7mVwS1tq8c2Fg", "kXb0uAaYQ5-sR6gLJ_dV4w")


def row(**columns: Any) -> Row:
    """A row as Spark returns it."""
    from pyspark.sql import Row

    return Row(**columns)


def answers() -> Answers:
    """What the report of two clusters shows; of the first one everything that can be shown is there."""
    from services.pipeline.report.days import Calendar
    from services.pipeline.report.findings import Findings
    from services.pipeline.report.fleet import Fleet
    from services.pipeline.report.limits import ShownRows
    from services.pipeline.report.page import Answers
    from services.pipeline.report.trust import Trust

    clusters = [cluster(cluster_id, 1 - place) for place, cluster_id in enumerate(CLUSTERS)]
    dates = [f"2026-11-{day:02d}" for day in range(3, 22)]
    shares: list[tuple[str, dict[str, float]]] = [
        (each, {date: (0.0, 0.0, 0.00004, 0.002, 0.0, 0.03)[(n * (place + 1)) % 6] for n, date in enumerate(dates)})
        for place, each in enumerate(CLUSTERS)
    ]
    days = [
        row(
            cluster_id=CLUSTERS[0], partition=f"{topic}-{n}", date="2026-11-21", seconds=43_200.0,
            offline_seconds=2_400.0 / (n + 1), under_min_isr_seconds=3_000.0, leader_changes=n + 2,
            unclean_elections=int(n == 0),
        )
        for n, topic in enumerate(("orders", "payments", LONG))
    ]  # fmt: skip
    doctor = [
        row(
            cluster_id=CLUSTERS[0], severity=severity, code=kind, subject=f"partition {LONG}-{n}",
            sentence="The last leader, broker 4, is fenced; no replica in sync is left.",
            advice="Start broker 4 again: it has the latest records.", since_ms=NOON_MS + n * MINUTE_MS,
        )
        for n, (severity, kind) in enumerate((("error", "NO_LEADER"),) * 20 + (("warn", "UNDER_MIN_ISR"),))
    ]  # fmt: skip
    churned = [
        row(
            cluster_id=CLUSTERS[0], broker_id=n, isr_shrinks=3 * n, isr_expands=2 * n, leaderships_gained=n,
            leaderships_lost=7 - n, fenced=int(n > 3), unfenced=1, days=1,
        )
        for n in range(1, 7)
    ]  # fmt: skip
    shares_of = [
        row(
            cluster_id=CLUSTERS[0], scope=scope, subject=subject, rack="a", state="fenced" if n else "active",
            replicas=12 + n, leaders=4, fair_replicas=12.5, fair_leaders=4.0, rack_violations=n, of=2,
        )
        for scope, subjects in (("broker", ("1", "4")), ("rack", ("a", "b")), ("topic", ("orders", LONG)))
        for n, subject in enumerate(subjects)
    ]  # fmt: skip
    told = [
        row(
            cluster_id=CLUSTERS[0], offset=4_000 + n, ms=NOON_MS + n * MINUTE_MS, subject=f"partition {LONG}-{n}",
            sentence=f"partition {LONG}-{n}: leader 4 → none, ISR 4,5 → none",
            trace_id="0af7651916cd43dd8448eb211c80319c", look="grave" if n % 3 == 0 else "", rank=40 - n,
        )
        for n in range(40)
    ]  # fmt: skip
    return Answers(
        fleet=Fleet(whole=cluster("", 1), clusters=ShownRows(clusters, 2)),
        trust=Trust(compared=5, differences=0),
        findings=Findings(
            counts=[
                row(severity=severity, code=kind, count=count, clusters=1)
                for severity, kind, count in (("error", "NO_LEADER", 41), ("warn", "UNDER_MIN_ISR", 1))
            ],
            rows=doctor,
        ),
        incident=incident(),
        drawn=[drawn(clusters[0])],
        days=ShownRows(days, 3),
        calendar=Calendar(dates=dates, shares=shares),
        churn=ShownRows(churned, 6),
        placement={
            scope: ShownRows([share for share in shares_of if share.scope == scope], 2)
            for scope in ("broker", "rack", "topic")
        },
        latency=latency(),
        audit=ShownRows(told, 40),
    )


def cluster(cluster_id: str, ill: int) -> Row:
    """The sums of a cluster; `ill` is 1 if partitions of it were offline, 0 if not."""
    return row(
        cluster_id=cluster_id, begin_ms=NOON_MS, end_ms=END_MS, end_offset=81_234, records=81_200, brokers=6, fenced=2,
        partitions=240, offline=12 * ill, under_min_isr=31 * ill, epochs=4, seconds=1_296_000.0,
        offline_seconds=28_800.0 * ill, under_min_isr_seconds=61_000.0 * ill, min_isr_assumed_seconds=0.0,
        assumed_min_isr=1, leader_changes=96, unclean_elections=ill,
    )  # fmt: skip


def incident() -> Incident:
    """Two causes, and the story of the first cluster."""
    from services.pipeline.report.incident import Incident
    from services.pipeline.report.limits import ShownRows

    causes = [
        row(
            cluster_id=CLUSTERS[0], severity="error", code="NO_LEADER", partitions=12,
            since_ms=NOON_MS + 41 * MINUTE_MS,
            sentence=f"topic {LONG} lost all leaders: broker 4 was fenced at 12:31:00, 5 shut down at 12:41:00",
            advice="Bring broker 5 back: it was the last in sync.",
        ),
        row(
            cluster_id=CLUSTERS[0], severity="warn", code="UNDER_REPLICATED", partitions=60, since_ms=None,
            sentence="60 partitions have fewer replicas in sync than they ask for: brokers 4 and 5 are missing",
            advice="Bring brokers 4 and 5 back.",
        ),
    ]  # fmt: skip
    story = (
        ("bad", "broker 4 (rack b) is fenced: 60 partitions lost a replica"),
        ("plain", "controller 12 becomes the active controller, in epoch 3"),
        ("bad", "broker 5 (rack b) begins a controlled shutdown: 12 partitions lost their leader"),
        ("good", "broker 4 is unfenced: 48 partitions have a leader again"),
    )
    earlier = [("plain", f"broker {n} registers") for n in range(100)]
    events = [
        row(
            cluster_id=CLUSTERS[0], offset=3_800 + n, ms=NOON_MS + (31 * MINUTE_MS) * n // 100, look=look,
            sentence=sentence, offline=12 * (n > 101), under_min_isr=20 * (n > 99), under_replicated=60 * (n > 99),
            total=104,
        )
        for n, (look, sentence) in enumerate((*earlier, *story))
    ]  # fmt: skip
    return Incident(causes=ShownRows(causes, 2), events=events)


def drawn(of: Row) -> Drawn:
    """The charts' rows: four epochs and a silence, six brokers, eight partitions."""
    from services.pipeline.report.cluster import Drawn
    from services.pipeline.report.health import Bucket

    def at(minute: int) -> int:
        return NOON_MS + minute * MINUTE_MS

    def states(broker_id: int) -> list[tuple[str, int, int]]:
        if broker_id == 4:
            return [("serving", 0, 31), ("fenced", 31, 61), ("serving", 61, 90)]
        if broker_id == 5:
            return [("serving", 0, 40), ("leaving", 40, 41), ("fenced", 41, 90)]
        return [("fenced", 0, 1), ("serving", 1, 90)]

    def spans(place: int) -> list[tuple[int, int, int, int]]:
        """Each of leader, replicas in sync, first and last minute."""
        if place <= 3:
            return [
                (4, 3, 1, 31),
                (5, 2, 31, 41),
                (-1, 0, 41, 61 + 9 * (place == 1)),
                (4, 1, 61 + 9 * (place == 1), 90),
            ]
        return [(place % 6 + 1, 3, 1, 31), (place % 6 + 1, 2, 31, 90)]

    leaders = ((1, 11, 0, 18), (2, 13, 18, 43), (3, 12, 52, 90), (4, 11, 90, 90))
    return Drawn(
        cluster=of,
        epochs=[
            row(
                cluster_id=of.cluster_id, epoch=epoch, leader=leader, begin_ms=at(minute), last_ms=at(last), total=4
            )
            for epoch, leader, minute, last in leaders
        ],
        silences=[row(cluster_id=of.cluster_id, begin_ms=at(43), end_ms=at(52))],
        brokers=[
            row(
                cluster_id=of.cluster_id, broker_id=broker_id, rack="ab"[broker_id > 3], state=state,
                begin_ms=at(begin), end_ms=at(end), total=3, of=6,
            )
            for broker_id in range(1, 7)
            for state, begin, end in states(broker_id)
        ],
        partitions=[
            row(
                cluster_id=of.cluster_id, place=place, of=240, partition=f"{NAMES.get(place, 'orders')}-{place}",
                leader=leader, isr_count=isr, wanted_count=3, offline=leader < 0, under_min_isr=isr < 2,
                begin_ms=at(begin), end_ms=at(end), total=9 if place == 2 else 4,
            )
            for place in range(1, 9)
            for leader, isr, begin, end in spans(place)
        ],
        buckets=[
            Bucket(of.cluster_id, at(begin), at(begin) + 22_500, (top, top // 3, off), (top, top // 3, off))
            for begin, top, off in ((31, 60, 0), (41, 96, 12), (61, 48, 1), (70, 36, 0))
        ],
    )  # fmt: skip


def latency() -> Latency:
    """The times of 4,000 writes, two hours, three elections."""
    from services.pipeline.report.latency import STAGES, Latency
    from services.pipeline.report.limits import ShownRows

    hours = [
        row(
            cluster_id=CLUSTERS[0], hour_ms=NOON_MS + 60 * n * MINUTE_MS, writes=2_000, failed_writes=n, p50_us=4_100,
            p99_us=61_000 + 9_000 * n, applied_p99_us=7_300, within_objective=0.994, objective_ms=100,
            slowest_follower=12, slowest_follower_p99_us=88_000,
        )
        for n in range(2)
    ]  # fmt: skip
    gaps = [
        row(
            cluster_id=CLUSTERS[0], at_ms=NOON_MS + 18 * MINUTE_MS * n, from_epoch=n, to_epoch=n + 1, leader_id=10 + n,
            gap_ms=542_000 // n, clock_behind_ms=40 if n == 3 else 0,
        )
        for n in range(1, 4)
    ]  # fmt: skip
    return Latency(
        writes=4_000,
        failed=1,
        stages=[(name, 900, 21_000) for name in STAGES.values()],
        spread={27: 120, 28: 800, 29: 1_900, 30: 700, 31: 300, 33: 150, 36: 29, 38: 1},
        hours=ShownRows(hours, 2),
        gaps=ShownRows(gaps, 3),
    )
