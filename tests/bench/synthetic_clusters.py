"""Metadata logs of many clusters as files, for whatever reads logs: `python -m tests.bench.synthetic`.

    python -m tests.bench.synthetic --records 10000000 --to DIR
    python -m tests.bench.synthetic --records 100000000 --clusters 10 --processes 2 --to DIR
    python -m tests.bench.synthetic --records 1000000 --clusters 20 --skew 1 --to DIR    # one is large, most are small

Each cluster is a directory of the node that led it, and a line in DIR/clusters.json. Logs and checkpoints of one
seed are the same bytes in every run, in however many processes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final

from quorate.metadata.canonical import canonical
from quorate.storage.disk_log import SEGMENT_BYTES, SEGMENT_BYTES_MAX
from tests.bench.synthetic import Shape
from tests.bench.synthetic_life import Life
from tests.bench.synthetic_node import Node, cluster_name

__all__ = ["LISTING", "Made", "Plan", "generate", "main", "plans"]

START_MS: Final = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""
DAY_MS: Final = 86_400_000
LISTING: Final = "clusters.json"
SAID_EVERY: Final = 250_000
CHECKPOINTS: Final = 4
RECORDS_MIN: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One cluster to be made: at least so many records in so many days, and about so many checkpoints on the way."""

    number: int
    seed: int
    directory: Path
    records: int
    shape: Shape
    days: float = 30.0
    checkpoints: int = CHECKPOINTS
    segment_bytes: int = SEGMENT_BYTES

    @property
    def cluster_id(self) -> str:
        """What meta.properties says."""
        return cluster_name(self.seed, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What one cluster came to: `fingerprint` is the canonical hash of the state at the end, `seconds` are of CPU."""

    cluster_id: str
    directory: str
    records: int
    batches: int
    bytes: int
    epochs: int
    partitions: int
    checkpoints: tuple[int, ...]
    fingerprint: str
    seconds: float


def generate(plan: Plan, say: Callable[[int], None] = lambda _: None) -> Made:
    """Make one cluster. `say` hears of the records that there are, now and then. Raises FileExistsError."""
    plan.directory.mkdir(parents=True)
    begun = time.process_time()
    chance = Random(f"{plan.seed}/{plan.number}")
    node = Node(
        plan.directory,
        cluster_id=plan.cluster_id,
        chance=chance,
        start_ms=START_MS,
        ms_per_record=plan.days * DAY_MS / plan.records,
        segment_bytes=plan.segment_bytes,
        checkpoint_every=max(1, plan.records // plan.checkpoints),
    )
    life = Life(node, plan.shape, chance)
    told = 0
    while node.next_offset < plan.records:
        life.go_on()
        if node.next_offset - told >= SAID_EVERY:
            told = node.next_offset
            say(told)
    size = node.size
    node.close()
    return Made(
        cluster_id=plan.cluster_id,
        directory=str(plan.directory),
        records=node.next_offset,
        batches=node.batches,
        bytes=size,
        epochs=node.epoch,
        partitions=node.state.topics.partition_count,
        checkpoints=tuple(snapshot.offset for snapshot in node.checkpoints),
        fingerprint=canonical(node.state),
        seconds=time.process_time() - begun,
    )


def plans(to: Path, *, records: int, clusters: int, seed: int, skew: float = 0.0, **rest: object) -> list[Plan]:
    """`records` shared among the clusters: evenly, or by Zipf's law with the exponent `skew`; RECORDS_MIN at least."""
    weights = [1 / rank**skew for rank in range(1, clusters + 1)]
    made = []
    for number, weight in enumerate(weights):
        count = max(RECORDS_MIN, round(records * weight / sum(weights)))
        directory = to / f"cluster-{number:04}"
        shape = _shape(count)
        made.append(Plan(number=number, seed=seed, directory=directory, records=count, shape=shape, **rest))  # type: ignore[arg-type]
    return made


def main(arguments: Sequence[str]) -> int:
    """Make what is asked for, saying how far it is. The exit code is 0, or 2 if the place is not empty."""
    asked = _parser().parse_args(arguments)
    to: Path = asked.to
    if to.exists() and any(to.iterdir()):
        sys.stderr.write(f"{to} is not empty: the logs of a run are made in a place of their own\n")
        return 2
    wanted = plans(
        to,
        records=asked.records,
        clusters=asked.clusters,
        seed=asked.seed,
        skew=asked.skew,
        days=asked.days,
        checkpoints=asked.checkpoints,
        segment_bytes=asked.segment_bytes,
    )
    begun = time.monotonic()
    made = []
    for each in _run(wanted, asked.processes):
        made.append(each)
        _say(f"{each.cluster_id}: {_words(each)}")
    (to / LISTING).write_text(json.dumps([asdict(each) for each in made], indent=1) + "\n")
    _say(_whole(made, time.monotonic() - begun))
    return 0


def _run(wanted: Sequence[Plan], processes: int) -> Iterator[Made]:
    if processes == 1:
        yield from map(_generate, wanted)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_generate, wanted)


def _generate(plan: Plan) -> Made:
    begun = time.monotonic()

    def say(records: int) -> None:
        pace = records / (time.monotonic() - begun)
        left_s = (plan.records - records) / pace
        _say(f"{plan.cluster_id}: {records:,} of {plan.records:,} records, {pace:,.0f}/s, {left_s:,.0f} s left")

    return generate(plan, say)


def _shape(records: int) -> Shape:
    """A cluster as large as one that writes so much: each partition is heard of a hundred times or more."""
    partitions = min(10_000, max(100, records // 100))
    return Shape(partitions=partitions, partitions_per_topic=20, brokers=30 if partitions > 2_000 else 12, racks=3)


def _words(made: Made) -> str:
    return (
        f"{made.records:,} records in {made.batches:,} batches, {made.bytes / 1e6:,.0f} MB, {made.epochs} epochs, "
        f"{made.partitions:,} partitions, {len(made.checkpoints)} checkpoints, {made.seconds:,.1f} s of CPU"
    )


def _whole(made: Sequence[Made], seconds: float) -> str:
    records, cpu = sum(each.records for each in made), sum(each.seconds for each in made)
    return (
        f"{records:,} records of {len(made)} clusters in {seconds:,.1f} s; "
        f"{records / cpu:,.0f} records a second of CPU; {sum(each.bytes for each in made) / records:.1f} bytes a record"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.synthetic", description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="a directory that is empty or not there")
    parser.add_argument("--records", type=_count, default=1_000_000, help="of all clusters together (1,000,000)")
    parser.add_argument("--clusters", type=_count, default=1, help="how many (1)")
    parser.add_argument("--skew", type=float, default=0.0, help="Zipf exponent of the clusters' sizes (0: all alike)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (1)")
    parser.add_argument("--days", type=float, default=30.0, help="how long the log lasts (30)")
    parser.add_argument("--checkpoints", type=_count, default=CHECKPOINTS, help=f"of each cluster ({CHECKPOINTS})")
    parser.add_argument("--segment-bytes", type=_segment, default=SEGMENT_BYTES, help="size of a segment (1 GiB)")
    parser.add_argument("--processes", type=_count, default=1, help="clusters made at once (1)")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: a whole number of 1 or more")
    return value


def _segment(text: str) -> int:
    value = int(text)
    if not 0 < value <= SEGMENT_BYTES_MAX:
        raise argparse.ArgumentTypeError(f"{text}: from 1 to {SEGMENT_BYTES_MAX} bytes")
    return value


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
