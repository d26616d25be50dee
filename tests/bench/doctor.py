"""Doctor, rack what-if and restarts over a large state: CPU of each, and of an examination as an observer has it."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from kraft.service.observer_pb2 import ExamineRequest
from quorate.controller.configs.settings import ControllerSettings
from quorate.doctor import Facts, examine
from quorate.metadata.state import ClusterState
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from quorate.what_if import brokers_of_rack, lose, plan_restarts, take_away
from services.observer.changes import Changes
from services.observer.examinations import Examinations, Restartable
from services.observer.images import Images
from tests.bench.measure import REPEATS, Table
from tests.bench.synthetic import Shape, cluster

T = TypeVar("T")
SIZES: Final = (100_000, 1_000_000)
WHAT: Final = ("doctor", "rack", "restarts", "doctor, one fenced", "Examine", "Examine's wall")
"""Each is in seconds; of the CPU but for the last."""


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """One line for each size, the medians of some runs, each in a process of its own."""
    data: list[Mapping[str, float]] = []
    for partitions in sizes:
        runs = [_measured(partitions) for _ in range(REPEATS)]
        medians = {name: statistics.median(each[name] for each in runs) for name in runs[0]}
        data.append({"partitions": partitions, **medians})
    columns = ("partitions", *(f"{name} s" for name in WHAT), "peak MB")
    rows = [
        [f"{each['partitions']:,.0f}", *(f"{each[name]:.2f}" for name in WHAT), f"{each['peak MB']:,.0f}"]
        for each in data
    ]
    return [Table(title="what is asked of a whole state", columns=columns, rows=rows, data=data)]


def _measured(partitions: int) -> Mapping[str, float]:
    command = [sys.executable, "-m", "tests.bench.doctor", str(partitions)]
    told: Mapping[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return told


def _measure(partitions: int) -> Mapping[str, float]:
    """What one process takes for each, on a cluster in which all is well but for what goes."""
    replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
    state, end, settings = replica.state, 2 * partitions + 1_000, ControllerSettings()
    state.load(cluster(Shape(partitions=partitions)), end)
    replica.applied = end
    gc.freeze()  # as services do with a large state: see `quorate.runtime.event_loop.memory`
    took: dict[str, float] = {}

    def timed(name: str, asked: Callable[[], T]) -> T:
        begun = time.process_time()
        answer = asked()
        took[name] = time.process_time() - begun
        return answer

    timed("doctor", lambda: examine(_facts(state)))
    gone = brokers_of_rack(state, "rack-1")
    timed("rack", lambda: take_away(state, brokers=gone, settings=settings, next_offset=end))
    registered = [each.id for each in state.brokers]
    timed("restarts", lambda: plan_restarts(state, registered, settings=settings, next_offset=end))
    took["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begun, begun_wall = _cpu(), time.perf_counter()
    asyncio.run(Examinations(replica, Images(replica, Changes(None)), Restartable()).answer(ExamineRequest()))
    took |= {"Examine": _cpu() - begun, "Examine's wall": time.perf_counter() - begun_wall}
    lose(state, brokers=gone[:1], settings=settings, next_offset=end)
    timed("doctor, one fenced", lambda: examine(_facts(state)))
    return took


def _facts(state: ClusterState) -> Facts:
    return Facts(state=state, voters=None, kraft_version=None, now_ms=None)


def _cpu() -> float:
    """CPU of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
