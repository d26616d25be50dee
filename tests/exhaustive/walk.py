"""Visits every state that can be reached, breadth first, so that a broken law is shown by the shortest way to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from traceback import extract_tb
from typing import TypeAlias

from tests.exhaustive import story
from tests.exhaustive.bounds import Bounds
from tests.exhaustive.cluster import Cluster, Event, State
from tests.exhaustive.node import Violation

Mark: TypeAlias = int
"""A state by 64 bits of its hash."""


@dataclass(slots=True)
class Report:
    """What a walk has come across."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    core_steps: int = 0
    node_values: int = 0
    cut_by_epochs: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    broken: str | None = None
    """The law that was broken, if one was."""
    path: list[str] = field(default_factory=list)
    """What led there, from the beginning."""
    leaders: int = 0
    """The most epochs that were led in one history."""
    committed: int = 0
    """The most records that were committed in one history."""
    voter_sets: int = 0
    """Of how many sizes the voter sets were that committed something."""
    truncations: int = 0
    """Steps of a node that truncated its log; equal steps count once."""


def _what(broken: AssertionError) -> str:
    """The law, or the assertion of the core's that failed."""
    if isinstance(broken, Violation):
        return str(broken)
    frame = extract_tb(broken.__traceback__)[-1]
    return f"{frame.name}: {frame.line} {broken}"


def mark(state: State) -> Mark:
    return hash(state)  # of ints alone, so it is the same in every process


@dataclass
class Walk:
    """One walk. `states_max` bounds memory: a walk that meets it is not complete. Use `run` once."""

    bounds: Bounds
    states_max: int = 7_000_000
    """Some 500 bytes each with all that belongs to them, so that a walk stays below 4 GiB."""
    progress: Callable[[Report], None] | None = None
    cluster: Cluster = field(init=False)
    report: Report = field(default_factory=Report)
    parents: dict[Mark, Mark] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.bounds)

    def run(self) -> Report:
        began = time.perf_counter()
        state = self.cluster.canonical(self.cluster.first())
        self.parents[mark(state)] = 0
        level = [state]
        while level and len(self.parents) < self.states_max and self.report.broken is None:
            level = self._next_level(level)
            self._count(began)
            self.report.depth += bool(level)
            if self.progress is not None:
                self.progress(self.report)
        self.report.is_complete = not level and self.report.broken is None
        return self.report

    def _count(self, began: float) -> None:
        report, table = self.report, self.cluster.table
        report.states = len(self.parents)
        report.core_steps, report.node_values = table.step_count, len(table.locals)
        pasts = table.pasts.values
        report.leaders = max(len(past.leaders) for past in pasts)
        report.committed = max(len(past.committed) for past in pasts)
        report.voter_sets = len({len(voters) for past in pasts for _, voters in past.committed})
        report.truncations = table.truncation_count
        report.cut_by_epochs = self.cluster.cut_by_epochs
        report.seconds = time.perf_counter() - began

    def _next_level(self, level: list[State]) -> list[State]:
        found: list[State] = []
        cluster, parents = self.cluster, self.parents
        for state in level:
            here = mark(state)
            cluster.trying = None
            try:
                cluster.laws.judge(state[0], state[3])
                for _, after in cluster.events(state):
                    self.report.transitions += 1
                    after = cluster.canonical(after)
                    there = mark(after)
                    if there not in parents:
                        parents[there] = here
                        found.append(after)
            except AssertionError as broken:
                self.report.broken = _what(broken)
                self.report.path = list(self._story(here))
                return []
        return found

    # The way to a state.

    def _story(self, end: Mark) -> Iterator[str]:
        is_in_state = self.cluster.trying is None
        marks = [end]
        while self.parents[marks[-1]]:
            marks.append(self.parents[marks[-1]])
        state = self.cluster.first()
        for wanted in reversed(marks[:-1]):
            event, state = self._step_to(state, wanted)
            yield self.describe(event)
        if not is_in_state:
            yield self.describe(self._breaking(state))

    def _breaking(self, state: State) -> Event:
        """The event after `state` that breaks a law."""
        try:
            for _ in self.cluster.events(state):
                pass
        except AssertionError:
            assert self.cluster.trying is not None
            return self.cluster.trying
        raise AssertionError(state)

    def _step_to(self, state: State, wanted: Mark) -> tuple[Event, State]:
        for event, after in self.cluster.events(state):
            if mark(self.cluster.canonical(after)) == wanted:
                return event, after
        raise AssertionError((state, wanted))

    def describe(self, event: Event) -> str:
        """One line on what happens."""
        return story.line(event)
