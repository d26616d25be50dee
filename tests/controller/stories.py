"""What may happen to a controller: any command after any other, through the engine, batch after batch.

A story is a list of steps, each the name of a command's file (or of a chore) and a seed; what exactly is asked follows
from the seed and the state. So Hypothesis can leave steps out, and a step can be asked twice over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import getmembers, isfunction
from random import Random
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from kraft import Message
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Answer, Engine
from quorate.controller.periodic import CHORES
from quorate.errors import ApiError
from quorate.metadata.canonical import canonical
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import Offset
from quorate.records import FeatureLevelRecord, decode_record
from tests.controller import asking_about_brokers, asking_about_people, asking_about_topics
from tests.controller.clusters import registration

EPOCH: Final = 1
SETTINGS: Final = ControllerSettings(
    delegation_tokens=TokenSettings(secret_key="of a story", max_lifetime_ms=50_000, expiry_time_ms=5_000)
)

Ask = Callable[[Random, ClusterState, ControllerSettings], Command[Any]]

ASKS: Final[Mapping[str, Ask]] = {
    name.removeprefix("ask_"): ask
    for module in (asking_about_topics, asking_about_brokers, asking_about_people)
    for name, ask in getmembers(module, isfunction)
    if name.startswith("ask_")
}
"""By the name of the command's file."""

READS: Final = frozenset(name for name in ASKS if name.startswith(("describe_", "list_")))

CHORES_BY_NAME: Final = {chore.name: chore for chore in CHORES}
_COMMON: Final = {
    "register_broker": 4,
    "change_broker_state": 7,
    "create_topics": 5,
    "alter_partition": 5,
    "create_delegation_token": 2,
}
"""What others live on: brokers that take part, topics that have leaders. Asked so many times as often."""
NAMES: Final = (*sorted(ASKS), *(name for name, more in _COMMON.items() for _ in range(more)), *CHORES_BY_NAME)


class Step(NamedTuple):
    """One thing that is asked for."""

    name: str
    seed: int


class Batch(NamedTuple):
    """What one append holds, as it came off the log again."""

    base_offset: Offset
    records: tuple[Message, ...]

    @property
    def end_offset(self) -> Offset:
        """Where the next one lies."""
        return self.base_offset + len(self.records)


def steps() -> st.SearchStrategy[list[Step]]:
    """Any commands and chores, one after the other: a few that shrink well, or many."""
    few = st.lists(any_step(), max_size=20)
    many = st.builds(random_steps, st.integers(0, 2**32), st.integers(20, 150))
    return st.one_of(few, many)


def any_step() -> st.SearchStrategy[Step]:
    """One of them."""
    return st.builds(Step, st.sampled_from(NAMES), st.integers(0, 999))


def random_steps(seed: int, count: int) -> list[Step]:
    """As many, out of a seed."""
    chance = Random(seed)
    return [Step(chance.choice(NAMES), chance.randrange(1000)) for _ in range(count)]


@dataclass(slots=True)
class Story:
    """A controller that is active over a log that keeps everything; `batches` are committed as they are taken."""

    level: int = 33
    elr: bool = False
    engine: Engine = field(default_factory=lambda: Engine(ClusterState()))
    batches: list[Batch] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    now_ms: int = 1_000_000
    digest: Any = field(default_factory=hashlib.sha256)
    """Of every byte that was handed to the quorum."""

    def begin(self) -> Story:
        """An empty log, the first records, and three brokers that take part."""
        self.engine.claim(EPOCH, 0)
        bootstrap = [FeatureLevelRecord(METADATA_VERSION, self.level)]
        bootstrap += [FeatureLevelRecord(ELR_VERSION, 1)] * self.elr
        self.write(activate(tuple(bootstrap), SETTINGS))
        for broker_id in range(1, 4):
            self.write(asking_about_brokers.registering(registration(broker_id), self.state, SETTINGS))
            self.write(asking_about_brokers.unfencing(broker_id, self.state, SETTINGS))
        return self

    @property
    def state(self) -> ClusterState:
        return self.engine.state

    def command(self, step: Step) -> Command[Any]:
        """What the step asks for in the present state; asked again, the same."""
        chore = CHORES_BY_NAME.get(step.name)
        return chore.command(SETTINGS) if chore else ASKS[step.name](Random(step.seed), self.state, SETTINGS)

    def decide(
        self, step: Step, form: Callable[[Command[Any]], Command[Any]] = lambda command: command
    ) -> Decision[Any] | tuple[int, str]:
        """What is decided now, or the refusal; nothing is written. `form` may make another command of it."""
        command = form(self.command(step))
        try:
            return command(self.state, Moment(next_offset=self.engine.next_offset, now_ms=self.now_ms))
        except ApiError as refusal:
            return int(refusal.code), refusal.message

    def take(self, step: Step) -> int:
        """Ask for it; how many records were written. Time goes on."""
        self.now_ms += step.seed % 100
        return self.write(self.command(step))

    def write(self, command: Command[Any], *, is_committed: bool = True) -> int:
        """Decide and append; commit, unless the quorum is to be slow."""
        self.engine.write(None, command, now_ms=self.now_ms)
        ready = self.engine.ready()
        for append in ready.appends:
            self.batches.append(Batch(append.base_offset, tuple(map(decode_record, append.values))))
            for value in append.values:
                self.digest.update(value)
            self.engine.note_appended(append.base_offset + len(append.values))
        if is_committed:
            self.engine.commit(self.engine.next_offset)
        self.answers += [*ready.answers, *self.engine.ready().answers]
        return sum(len(append.values) for append in ready.appends)

    def tell(self, taken: list[Step]) -> Story:
        """Take all of these."""
        for step in taken:
            self.take(step)
        return self


def replayed(batches: list[Batch], state: ClusterState | None = None) -> ClusterState:
    """What a standby makes of them."""
    state = state or ClusterState()
    for batch in batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            state.apply(record, offset)
    return state


def told(story: Story) -> str:
    """Everything that may be compared of a story: what was written, what was answered, where it ended."""
    answers = hashlib.sha256()
    for answer in story.answers:
        answers.update(repr((answer.response, answer.error and str(answer.error), answer.offset)).encode())
    return f"{len(story.batches)} {story.digest.hexdigest()} {answers.hexdigest()} {canonical(story.state)}"
