"""An active controller without a process: the engine on a synthetic cluster, and a quorum that takes all at once."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Append, Engine
from quorate.metadata.state import ClusterState
from quorate.records import decode_record
from tests.bench.synthetic import Shape, values

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One write that is on its way, in seconds of CPU: `decided` by the command, `applied` and encoded after it."""

    appends: tuple[Append, ...]
    decided: float
    applied: float

    @property
    def record_count(self) -> int:
        return sum(len(append.values) for append in self.appends)


def standby(shape: Shape) -> Engine:
    """A controller that has replayed such a cluster."""
    engine = Engine(ClusterState())
    end_offset = 0
    for end_offset, value in enumerate(values(shape), start=1):
        engine.state.apply(decode_record(value), end_offset - 1)
    engine.replay((), base_offset=end_offset, end_offset=end_offset)
    gc.collect()
    gc.freeze()  # as a service does that has loaded it
    return engine


def write(engine: Engine, command: Command[T]) -> Written:
    """Decide, apply, encode: what a driver has done in one go, while nobody else has a turn."""
    decided = 0.0

    def timed(state: ClusterState, moment: Moment) -> Decision[T]:
        nonlocal decided
        begun = time.process_time()
        decision = command(state, moment)
        decided = time.process_time() - begun
        return decision

    begun = time.process_time()
    engine.write(None, timed, now_ms=0)
    ready = engine.ready()
    all_of_it = time.process_time() - begun
    assert not (ready.appends and ready.answers), ready.answers
    return Written(appends=ready.appends, decided=decided, applied=all_of_it - decided)


def write_in_turns(engine: Engine, turns: Iterator[Command[T]]) -> Iterator[Written]:
    """Each turn of a change; `decided` has what it took to find out what is to be done in it."""
    while True:
        begun = time.process_time()
        command = next(turns, None)
        searched = time.process_time() - begun
        if command is None:
            return
        written = write(engine, command)
        yield replace(written, decided=searched + written.decided)


def commit(engine: Engine, written: Written) -> list[float]:
    """The quorum takes and commits batch after batch: the seconds of CPU of each. The last brings the answer."""
    seconds: list[float] = []
    if not written.appends:
        return seconds
    for append in written.appends:
        begun = time.process_time()
        engine.note_appended(append.base_offset + len(append.values))
        engine.commit(append.base_offset + len(append.values))
        answers = engine.ready().answers
        seconds.append(time.process_time() - begun)
    assert [None] == [answer.error for answer in answers], answers
    return seconds
