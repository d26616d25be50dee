"""Snapshots by offset: what they refuse, what they forget, and what they do not keep alive."""

import gc
import weakref

import pytest

from quorate.timeline import SnapshotRegistry, TimelineDict, TimelineValue
from quorate.timeline.registry import UNCHANGED


@pytest.fixture
def registry() -> SnapshotRegistry:
    return SnapshotRegistry()


def test_a_new_registry_has_no_snapshot(registry: SnapshotRegistry) -> None:
    assert registry.latest is None
    assert registry.offsets == ()
    assert 0 not in registry


def test_lists_its_snapshots_in_ascending_order(registry: SnapshotRegistry) -> None:
    for offset in (3, 9, 40):
        registry.create(offset)

    assert registry.offsets == (3, 9, 40)
    assert registry.latest == 40
    assert 9 in registry
    assert 10 not in registry


@pytest.mark.parametrize("offset", [8, 9])
def test_refuses_an_offset_that_does_not_rise(registry: SnapshotRegistry, offset: int) -> None:
    registry.create(9)

    with pytest.raises(AssertionError, match=f"{offset} does not lie above 9"):
        registry.create(offset)

    assert registry.offsets == (9,)


def test_refuses_a_negative_offset(registry: SnapshotRegistry) -> None:
    with pytest.raises(AssertionError, match="-1"):
        registry.create(-1)


def test_an_offset_may_return_once_it_was_reverted_past(registry: SnapshotRegistry) -> None:
    registry.create(3)
    registry.create(9)
    registry.revert_to(3)

    registry.create(5)

    assert registry.offsets == (3, 5)


@pytest.mark.parametrize("misuse", ["revert_to", "delete", "dict.at", "value.at"])
def test_names_an_offset_that_is_not_live_and_those_that_are(registry: SnapshotRegistry, misuse: str) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    epoch = TimelineValue(registry, 0)
    registry.create(3)
    registry.create(9)
    verbs = {
        "revert_to": registry.revert_to,
        "delete": registry.delete,
        "dict.at": leaders.at,
        "value.at": epoch.at,
    }

    with pytest.raises(AssertionError, match=r"no snapshot at offset 7; there are \[3, 9\]"):
        verbs[misuse](7)

    assert registry.offsets == (3, 9)


def test_forgets_what_lies_below_an_offset_that_need_not_be_live(registry: SnapshotRegistry) -> None:
    for offset in (3, 9, 40):
        registry.create(offset)

    registry.forget_before(3)
    assert registry.offsets == (3, 9, 40)

    registry.forget_before(10)
    assert registry.offsets == (40,)

    registry.forget_before(41)
    assert registry.offsets == ()
    assert registry.latest is None


def test_a_view_is_refused_once_its_snapshot_is_forgotten(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    registry.create(3)
    then = leaders.at(3)
    registry.forget_before(4)

    with pytest.raises(AssertionError, match="no snapshot at offset 3"):
        then.get("orders-0")


def test_what_a_deleted_snapshot_kept_goes_to_the_one_before(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    leaders["a"] = leaders["b"] = 1
    registry.create(10)
    leaders["a"] = 2
    registry.create(20)
    leaders["a"] = leaders["b"] = 3
    registry.create(30)
    leaders["c"] = 4

    registry.delete(20)

    assert registry.offsets == (10, 30)
    assert leaders.at(10) == {"a": 1, "b": 1}
    assert leaders.at(30) == {"a": 3, "b": 3}


@pytest.mark.parametrize(("offset", "value"), [(40, 4), (30, 3), (20, 2), (10, 2)])
def test_goes_back_over_many_snapshots_at_once(registry: SnapshotRegistry, offset: int, value: int) -> None:
    """Newest first: of two snapshots that kept a key the older one has the last word."""
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    leaders["a"] = 2
    registry.create(10)
    registry.create(20)
    leaders["a"] = 3
    registry.create(30)
    leaders["a"] = 4
    registry.create(40)
    leaders["a"] = 5

    registry.revert_to(offset)

    assert leaders == {"a": value}
    assert registry.latest == offset
    assert leaders.overwritten_since(offset) == {}


def test_reset_empties_every_collection_and_forgets_every_snapshot(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    epoch = TimelineValue(registry, 7)
    leaders["a"] = 1
    epoch.value = 8
    registry.create(10)

    registry.reset()

    assert registry.offsets == ()
    assert leaders == {}
    assert epoch.value == 7

    registry.create(0)  # offsets start anew
    leaders["b"] = 2

    assert leaders.at(0) == {}


def test_a_registry_does_not_keep_a_dropped_collection_alive(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    leaders["a"] = 1
    dropped = weakref.ref(leaders)

    del leaders
    gc.collect()

    assert dropped() is None
    registry.reset()


def test_a_snapshot_keeps_a_dropped_collection_until_it_is_forgotten(registry: SnapshotRegistry) -> None:
    """A topic that was deleted after the snapshot comes back with its partitions as they were."""
    topics: TimelineDict[str, TimelineDict[int, str]] = TimelineDict(registry)
    topics["orders"] = TimelineDict(registry)
    topics["orders"][0] = "led by 1"
    registry.create(10)
    topics["orders"][0] = "led by 2"
    dropped = weakref.ref(topics["orders"])
    del topics["orders"]
    gc.collect()

    assert topics.at(10)["orders"].at(10) == {0: "led by 1"}

    registry.revert_to(10)

    assert topics["orders"] == {0: "led by 1"}

    del topics["orders"]
    registry.forget_before(11)
    gc.collect()

    assert dropped() is None


def test_a_held_snapshot_stays_readable_until_it_is_released(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    leaders["orders-0"] = 1
    registry.create(3)
    registry.hold(3)
    for offset, leader in ((9, 2), (12, 3)):
        leaders["orders-0"] = leader
        registry.create(offset)
    leaders["orders-1"] = 4

    registry.forget_before(13)

    assert ([3], True) == (list(registry.offsets), registry.is_held(3))
    assert {"orders-0": 1} == leaders.at(3)
    assert {"orders-0": 3, "orders-1": 4} == leaders

    registry.release(3)
    registry.forget_before(13)

    assert ([], False) == (list(registry.offsets), registry.is_held(3))


def test_what_lies_before_a_held_snapshot_is_forgotten_and_what_comes_after_the_offset_is_not(
    registry: SnapshotRegistry,
) -> None:
    for offset in (1, 3, 9, 12):
        registry.create(offset)
    registry.hold(3)

    registry.forget_before(12)

    assert (3, 12) == registry.offsets


@pytest.mark.parametrize("loss", ["reset", "revert"])
def test_a_held_snapshot_that_is_lost_is_held_no_more(registry: SnapshotRegistry, loss: str) -> None:
    registry.create(1)
    registry.create(3)
    registry.hold(3)

    registry.reset() if loss == "reset" else registry.revert_to(1)

    assert not registry.is_held(3)
    registry.release(3)


def test_a_snapshot_is_held_until_everybody_has_released_it(registry: SnapshotRegistry) -> None:
    registry.create(3)
    registry.hold(3)
    registry.hold(3)

    registry.release(3)
    registry.forget_before(9)

    assert [3] == list(registry.offsets)
    with pytest.raises(AssertionError, match="held"):
        registry.delete(3)

    registry.release(3)
    registry.forget_before(9)

    assert [] == list(registry.offsets)


def test_each_of_several_held_takes_over_what_comes_before_the_next(registry: SnapshotRegistry) -> None:
    leaders: TimelineDict[str, int] = TimelineDict(registry)
    for offset in range(6):
        leaders["orders-0"] = offset
        registry.create(offset)
        if offset % 2:
            registry.hold(offset)
    leaders["orders-0"] = 9

    registry.forget_before(6)

    assert (1, 3, 5) == registry.offsets
    assert [1, 3, 5] == [leaders.at(offset)["orders-0"] for offset in registry.offsets]


def test_a_collection_says_since_which_snapshot_it_has_changed(registry: SnapshotRegistry) -> None:
    changed: TimelineDict[str, int] = TimelineDict(registry)
    changed["before any"] = 1
    registry.create(10)
    assert UNCHANGED == changed.changed_at

    changed["since"] = 10
    registry.create(20)
    assert changed.changed_at == 10

    registry.reset()
    assert UNCHANGED == changed.changed_at
