"""The collections against the obvious way to do it: a deep copy of everything at each snapshot."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.timeline import SnapshotRegistry, TimelineDict, TimelineValue

KEYS = st.integers(0, 5)
VALUES = st.none() | st.integers(0, 3)
PAIRS = st.lists(st.tuples(KEYS, VALUES), max_size=5)


@dataclass
class Copy:
    """The state as plain collections."""

    config: dict[int, int | None] = field(default_factory=dict)
    epoch: int | None = 7
    topics: dict[int, dict[int, int | None]] = field(default_factory=dict)


class AgainstCopies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = SnapshotRegistry()
        self.config: TimelineDict[int, int | None] = TimelineDict(self.registry)
        self.epoch: TimelineValue[int | None] = TimelineValue(self.registry, 7)
        self.topics: TimelineDict[int, TimelineDict[int, int | None]] = TimelineDict(self.registry)
        self.now = Copy()
        self.then: dict[int, Copy] = {}

    def some_offset(self, pick: int) -> int:
        return sorted(self.then)[pick % len(self.then)]

    @rule(key=KEYS, value=VALUES)
    def put(self, key: int, value: int | None) -> None:
        self.config[key] = value
        self.now.config[key] = value

    @rule(key=KEYS)
    def delete_key(self, key: int) -> None:
        assert self.config.pop(key, "none") == self.now.config.pop(key, "none")

    @rule(pairs=PAIRS, as_mapping=st.booleans())
    def put_many(self, pairs: list[tuple[int, int | None]], as_mapping: bool) -> None:
        self.config.update(dict(pairs) if as_mapping else pairs)
        self.now.config.update(pairs)

    @rule()
    def clear(self) -> None:
        self.config.clear()
        self.now.config.clear()

    @rule(value=VALUES)
    def set_value(self, value: int | None) -> None:
        self.epoch.value = value
        self.now.epoch = value

    @rule(topic=KEYS, partition=KEYS, value=VALUES)
    def put_nested(self, topic: int, partition: int, value: int | None) -> None:
        if topic not in self.topics:
            self.topics[topic] = TimelineDict(self.registry)
        self.topics[topic][partition] = value
        self.now.topics.setdefault(topic, {})[partition] = value

    @rule(topic=KEYS)
    def delete_nested(self, topic: int) -> None:
        self.topics.pop(topic, None)
        self.now.topics.pop(topic, None)

    @rule(step=st.integers(1, 3))
    def create(self, step: int) -> None:
        offset = max(self.then, default=-1) + step
        self.registry.create(offset)
        self.then[offset] = deepcopy(self.now)

    @precondition(lambda self: self.then)
    @rule(pick=st.integers(0, 9))
    def revert(self, pick: int) -> None:
        offset = self.some_offset(pick)
        self.registry.revert_to(offset)
        self.now = deepcopy(self.then[offset])
        self.then = {at: copy for at, copy in self.then.items() if at <= offset}

    @precondition(lambda self: self.then)
    @rule(pick=st.integers(0, 9), above=st.integers(-1, 1))
    def forget_before(self, pick: int, above: int) -> None:
        offset = self.some_offset(pick) + above
        self.registry.forget_before(offset)
        self.then = {at: copy for at, copy in self.then.items() if at >= offset or self.registry.is_held(at)}

    @precondition(lambda self: self.then)
    @rule(pick=st.integers(0, 9))
    def hold(self, pick: int) -> None:
        self.registry.hold(self.some_offset(pick))

    @precondition(lambda self: self.then)
    @rule(pick=st.integers(0, 9))
    def release(self, pick: int) -> None:
        self.registry.release(self.some_offset(pick))

    @precondition(lambda self: self.then)
    @rule(pick=st.integers(0, 9))
    def delete_snapshot(self, pick: int) -> None:
        offset = self.some_offset(pick)
        if self.registry.is_held(offset):
            return
        self.registry.delete(offset)
        del self.then[offset]

    @rule()
    def reset(self) -> None:
        self.registry.reset()
        self.now, self.then = Copy(), {}

    @invariant()
    def what_differs_has_changed(self) -> None:
        for offset, copy in self.then.items():
            if copy.config != self.now.config:
                assert self.config.changed_at >= offset
            if copy.epoch != self.now.epoch:
                assert self.epoch.changed_at >= offset

    @invariant()
    def the_present_is_right(self) -> None:
        assert self.config == self.now.config
        assert self.epoch.value == self.now.epoch
        assert self.topics == self.now.topics

    @invariant()
    def each_snapshot_is_right(self) -> None:
        assert self.registry.offsets == tuple(sorted(self.then))
        assert self.registry.latest == max(self.then, default=None)
        for offset, copy in self.then.items():
            config = self.config.at(offset)
            assert dict(config) == copy.config
            assert len(config) == len(copy.config)
            assert {key: config.get(key, "none") for key in range(6)} == {
                key: copy.config.get(key, "none") for key in range(6)
            }
            assert [key in config for key in range(6)] == [key in copy.config for key in range(6)]
            assert self.epoch.at(offset) == copy.epoch
            assert {topic: dict(inner.at(offset)) for topic, inner in self.topics.at(offset).items()} == copy.topics

    @invariant()
    def what_was_not_overwritten_has_not_changed(self) -> None:
        for offset, copy in self.then.items():
            overwritten = self.config.overwritten_since(offset)
            for key in set(copy.config) | set(self.now.config):
                if key not in overwritten:
                    assert (key in copy.config) == (key in self.now.config)
                    assert copy.config.get(key) == self.now.config.get(key)


TestAgainstCopies = AgainstCopies.TestCase
TestAgainstCopies.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
